/* teacher.c - see teacher.h. Rank 0 alone reads the file: the others get its configuration, from
 * which they build the network, and later its weights. */
#include "trainer/engine/session/teacher.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/files/foreign_model.h"
#include "trainer/engine/files/learnt.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/plan/progressive.h"
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 160 };

/* ---- the file ---- */

static Status open_model(Teacher *t, const Config *c)
{
    static const char key[] = "train.teacher_model";
    const ForeignModel foreign = { .option = key, .model = c->train.teacher_model, .like = c };
    if (foreign.model[0]) return foreign_model_open(&t->model, t->path, &foreign, 1);
    TRY(foreign_model_need_own(t->path, key));
    TRY(checkpoint_model_open(&t->model, t->path, 1));
    return checkpoint_model_choose(&t->model, WEIGHTS_OF_BEST, t->path);
}

/* ---- what teacher and student must have in common ---- */

static Status check_images(const Teacher *t, const Config *c)
{
    const Config *its = t->model.config;
    const ModelDef *def = t->model.def;
    if (def->text) return fail(ERR_DATA, "%s: %s reads text", t->path, def->name);
    if (its->data.labels == LABELS_MULTI)
        return fail(ERR_DATA, "%s: was trained with several labels per image (data.labels)",
                    t->path);
    if (its->model.in_channels != c->model.in_channels)
        return fail(ERR_DATA, "%s: takes images with %lld channels, but model.in_channels is %lld",
                    t->path, (long long)its->model.in_channels, (long long)c->model.in_channels);
    if (its->data.image_size != c->data.image_size)
        return fail(ERR_DATA, "%s: takes images of %lld pixels, but data.image_size is %lld",
                    t->path, (long long)its->data.image_size, (long long)c->data.image_size);
    for (int i = 0; def->one_size && i < progressive_stage_count(c); i++)
        if (progressive_image_size(c, i) != c->data.image_size)
            return fail(ERR_DATA,
                        "%s: %s takes images of one size only, which excludes data.train_size and "
                        "data.progressive_sizes",
                        t->path, def->name);
    return OK;
}

/* The classes must be the same in the same order. Weights without class names cannot be checked. */
static Status check_names(const Teacher *t, const Dataset *train, Learnt *learnt, int *places)
{
    const ClassList own = dataset_class_list(train, "data.train");
    if (!learnt->names) class_list_tell_order(&own, t->path);
    if (!learnt->names) return OK;
    learnt->list.may_lack = true;
    TRY(class_list_match_set(places, &own, &learnt->list));
    for (int k = 0; k < own.count; k++)
        if (places[k] != k)
            return fail(ERR_DATA, "%s: has another class %d than data.train, where it is %s",
                        t->path, k, own.names[k]);
    return OK;
}

static Status check_classes(const Teacher *t, const Dataset *train, int64_t classes)
{
    Learnt learnt;
    if (t->model.classes != classes)
        return fail(ERR_DATA, "%s: has %lld classes, but this network has %lld", t->path,
                    (long long)t->model.classes, (long long)classes);
    int *places FREED = mem_calloc((size_t)classes, sizeof *places);
    Status status = learnt_open(&learnt, t->model.file, t->path);
    if (!places) status = ERR_MEMORY;
    if (status == OK) status = check_names(t, train, &learnt, places);
    learnt_close(&learnt);
    return status;
}

/* A run replaces its own checkpoints. */
static Status check_apart(const Teacher *t, const Config *c)
{
    const char *slash = strrchr(t->path, '/');
    StrBuf own FREED_BY(str_free) = { 0 };
    str_printf(&own, "%s/checkpoints/%s", c->run.dir, slash ? slash + 1 : t->path);
    if (own.failed) return ERR_MEMORY;
    return c->run.dir[0] && fs_same_file(own.text, t->path)
               ? fail(ERR_USAGE, "%s: is a checkpoint of this run (run.dir), which replaces it",
                      t->path)
               : OK;
}

static Status open_here(Teacher *t, const Config *c, const Dataset *train, int64_t classes)
{
    if (!fs_exists(c->train.teacher))
        return fail(ERR_DATA, "%s: does not exist (train.teacher= continues without a teacher)",
                    c->train.teacher);
    TRY(run_source_checkpoint(&t->path, c->train.teacher));
    TRY(check_apart(t, c));
    TRY(open_model(t, c));
    TRY(check_images(t, c));
    return check_classes(t, train, classes);
}

/* ---- the same on all ranks ---- */

static Status share_config(Teacher *t, Comm *comm)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    TRY(comm_agree(comm, comm->rank == 0 ? config_dump_yaml(t->model.config, &text) : OK));
    int64_t bytes = (int64_t)text.length + 1;
    comm_broadcast(comm, &bytes, sizeof bytes, 0, "size of the teacher's configuration");
    char *copy FREED = mem_calloc((size_t)bytes, 1);
    TRY(comm_agree(comm, copy ? OK : ERR_MEMORY));
    if (text.text) memcpy(copy, text.text, text.length);
    comm_broadcast(comm, copy, (size_t)bytes, 0, "the teacher's configuration");
    return comm_agree(comm, config_parse(&t->config, copy));
}

Status teacher_open(Teacher *t, const Config *c, const Dataset *train, int64_t classes, Comm *comm)
{
    if (!c->train.teacher[0]) return OK;
    Status status = comm->rank == 0 ? open_here(t, c, train, classes) : OK;
    if (status != OK) fail_note(status, "train.teacher");
    TRY(comm_agree(comm, status));
    return share_config(t, comm);
}

Status teacher_graph(Graph **out, const Teacher *t, const GraphOptions *student)
{
    ModelOptions o = config_model_options(t->config, student->height, student->classes);
    o.graph.batch = student->batch;
    return model_build(out, model_find(t->config->model.name), &o);
}

/* ---- its weights ---- */

/* Copies the weights from x into the student's program. */
static Status copy_weights(Teacher *t, const Executor *x, Backend *backend, const Program *student)
{
    char name[NAME_BYTES];
    StrBuf about FREED_BY(str_free) = { 0 };
    str_add(&about, t->model.def->name);
    foreign_model_add_images(t->model.config, &about);
    if (about.failed) return ERR_MEMORY;
    uint32_t crc = crc32c_update(0, about.text, about.length);
    for (int i = 0; i < executor_state_count(x); i++) {
        const OpTensor *from = executor_state(x, i);
        snprintf(name, sizeof name, "teacher.%s", executor_state_name(x, i));
        const TensorId to = graph_find(program_graph(student), name);
        ASSERT(to != TENSOR_NONE);
        float *values FREED = mem_alloc(tensor_plain_bytes(&from->desc));
        if (!values) return ERR_MEMORY;
        TRY(executor_export_state(x, i, values));
        crc = crc32c_update(crc, values, tensor_plain_bytes(&from->desc));
        TRY(backend->v->import_tensor(backend, program_tensor(student, to), values));
    }
    t->print = (int64_t)crc + 1;
    return OK;
}

/* Loads the weights into a graph of the teacher alone, where those of others are adapted. */
static Status read_weights(const Teacher *t, Executor *x)
{
    const CheckpointModel *m = &t->model;
    Graph *g = NULL;
    Program *p;
    TRY(checkpoint_model_graph(&g, m, m->classes, 1, 0));
    TRY(executor_add(x, g, false, &p));
    TRY(executor_commit(x));
    if (m->foreign) return weights_restore(x, program_graph(p), m->def, m->file, t->path, NULL);
    for (int i = 0; i < executor_state_count(x); i++)
        TRY(executor_import_state(x, i,
                                  safetensors_find(m->file, executor_state_name(x, i))->data));
    return OK;
}

Status teacher_place(Teacher *t, Backend *backend, const Program *student)
{
    Backend *host = NULL;
    Executor *x = NULL;
    Status status = backend_cpu_create(&host, &(CpuOptions){ .threads = 1 });
    if (status == OK) status = executor_create(&x, host);
    if (status == OK) status = read_weights(t, x);
    if (status == OK) status = copy_weights(t, x, backend, student);
    executor_destroy(x);
    if (host) backend_destroy(host);
    checkpoint_model_close(&t->model);
    return status == OK ? OK : fail_note(status, "train.teacher");
}

void teacher_close(Teacher *t)
{
    checkpoint_model_close(&t->model);
    config_destroy(t->config);
    mem_free(t->path);
    *t = (Teacher){ .config = NULL };
}
