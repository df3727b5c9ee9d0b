/* config_caution.c - what a configuration may say, but hardly means. */
#include "base/log.h"
#include "base/mem.h"
#include "kernels/ops/update.h"
#include "trainer/engine/config/config_internal.h"
#include <string.h>

/* Which optimizers read a key that others leave alone; bits by UpdateKind. */
#define BIT(kind)   (1U << UPDATE_##kind)
#define MOMENTUM_OF (BIT(SGD) | BIT(LARS) | BIT(LARS_MLPERF) | BIT(RMSPROP_TF) | BIT(MUON))
#define BETAS_OF    (BIT(ADAM) | BIT(ADAMW) | BIT(LAMB) | BIT(LION) | BIT(MUON))
static const struct {
    const char *key;
    unsigned kinds;
} readers[] = {
    { "optimizer.momentum", MOMENTUM_OF },
    { "optimizer.betas", BETAS_OF },
    { "optimizer.eps", ~(BIT(SGD) | BIT(LION)) },
    { "optimizer.alpha", BIT(RMSPROP_TF) },
    { "optimizer.trust_coefficient", BIT(LARS) | BIT(LARS_MLPERF) },
};

bool config_has_default(const Config *c, const ConfigKey *key)
{
    Config plain = { .optimizer.name = 0 };
    StrBuf a FREED_BY(str_free) = { 0 }, b FREED_BY(str_free) = { 0 };
    const Status status = config_set_text(&plain, key, key->fallback, "");
    config_add_value(c, key, &a);
    config_add_value(&plain, key, &b);
    if (key->type == KEY_STRING) mem_free(*(char **)(void *)((char *)&plain + key->offset));
    return status == OK && !a.failed && !b.failed && strcmp(a.text, b.text) == 0;
}

void config_note_unread(Config *c, const ConfigOrigin *origin, bool kept)
{
    c->unread = 0;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        const int index = config_find_key(readers[i].key), line = origin->line[index];
        /* What stands for auto in the file of a run was not given by anybody. */
        const bool is_auto = strcmp(config_keys[index].fallback, "auto") == 0;
        const bool given = line == ORIGIN_SET || (line > 0 && !kept && !is_auto &&
                                                  !config_has_default(c, &config_keys[index]));
        if (given && !(readers[i].kinds >> c->optimizer.name & 1)) c->unread |= 1U << i;
    }
}

void config_warn(const Config *c, bool resumed)
{
    const char *optimizer = update_kind_names[c->optimizer.name];
    const bool as_adam = (BIT(ADAM) | BIT(ADAMW) | BIT(LION)) >> c->optimizer.name & 1;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (c->unread >> i & 1)
            log_warning("%s is ignored: %s does not use it (optimizer.name)", readers[i].key,
                        optimizer);
    if (as_adam && c->optimizer.lr > 0.01)
        log_warning("optimizer.lr is %g, a learning rate for sgd; %s rarely takes more than 0.01",
                    c->optimizer.lr, optimizer);
    if (c->train.batch_mode == BATCH_PER_RANK && c->train.global_batch > 0 &&
        c->scale.mode != SCALE_STRONG)
        log_warning(
            "train.global_batch is ignored: train.batch_mode is per_rank; set it to global");
    if (c->optimizer.head_lr != 1 && c->model.init[0] == '\0' && !resumed)
        log_warning("optimizer.head_lr is %g, but no weights are loaded (model.init): all layers "
                    "are new, and only the last has this factor; leave it at 1",
                    c->optimizer.head_lr);
}
