/* eval_run.c - see eval_run.h. */
#include "trainer/cmd/eval_run.h"

#include "base/fs.h"
#include "base/str.h"
#include "trainer/files/checkpoint_model.h"
#include <string.h>

/* Keys but for places that say which images are evaluated, and how they are seen. */
static const char *const view_keys[] = {
    "model.in_channels", "data.val_split",   "data.val_split_seed",
    "data.class_map",    "data.image_size",  "data.mean",
    "data.std",          "data.eval_resize", "data.interpolation",
    "data.tta_flip",     "data.tta",         "data.synthetic_images",
};

static bool same_view(const Config *a, const Config *b)
{
    const Config *const both[] = { a, b };
    const char *key;
    for (int i = 0; (i = config_next_difference(both, 2, i, &key)) >= 0; i++)
        for (size_t k = 0; k < sizeof view_keys / sizeof view_keys[0]; k++)
            if (strcmp(key, view_keys[k]) == 0) return false;
    return true;
}

static bool own_images(const Config *c, const Config *run)
{
    const char *here = c->data.val_split > 0 ? c->data.train : c->data.val;
    const char *there = run->data.val_split > 0 ? run->data.train : run->data.val;
    if (run->data.val[0] == '\0' && run->data.val_split == 0) return true;
    return (strcmp(here, there) == 0 || fs_same_file(here, there)) && same_view(c, run);
}

/* Whether path lies in the folder of the run that the result would be a record of. */
static bool own_weights(const Config *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    StrBuf own = { 0 };
    str_printf(&own, "%s/checkpoints/%s", c->run.dir, slash ? slash + 1 : path);
    const bool same = !own.failed && fs_same_file(own.text, path);
    str_free(&own);
    return same;
}

Status eval_run_ask(EvalRun *out, const Config *c, const char *path)
{
    CheckpointModel m;
    *out = (EvalRun){ .foreign = true };
    TRY(learnt_open_file(&out->learnt, path));
    out->classes = out->learnt.list.count;
    if (checkpoint_model_open(&m, path, 1) != OK) return OK;
    out->foreign = !own_weights(c, path) || !own_images(c, m.config);
    out->classes = m.classes;
    checkpoint_model_close(&m);
    return OK;
}

void eval_run_free(EvalRun *run)
{
    learnt_close(&run->learnt);
}
