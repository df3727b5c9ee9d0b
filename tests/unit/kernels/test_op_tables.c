/* test_op_tables.c - walks the table of ops and those of the backends, and names every slot that is
 * empty.
 *
 * An op of kernels/op_list.h that has no row or no implementation does not link; what is left out
 * of one shows here by name, not at run time as a model that cannot be prepared. */
#include "kernels/backend_cuda.h"

#include "kernels/ops/update.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* Reports "op 7: name" as the text of a failed check. */
static void check_slot(bool good, OpKind kind, const char *where, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s: op %d: %s", where, (int)kind, what);
    (void)test_check(good, __FILE__, __LINE__, text);
}

static int filled_names(const char *const *names, int max)
{
    int n = 0;
    while (n < max && names[n] && names[n][0]) n++;
    return n;
}

TEST(every_row_is_complete)
{
    for (int k = 0; k < OP_COUNT; k++) {
        OpKind kind = (OpKind)k;
        const OpDef *def = op_def(kind);
        check_slot(def != NULL, kind, "op_def", "row");
        if (!def) continue;
        check_slot(def->infer != NULL, kind, "op_def", "infer");
        check_slot(op_inputs(def) >= 1 && op_inputs(def) <= OP_MAX_INPUTS, kind, "op_def",
                   "inputs");
        check_slot(op_outputs(def) >= 0 && op_outputs(def) <= OP_MAX_OUTPUTS, kind, "op_def",
                   "outputs");
        check_slot(filled_names(def->in_names, OP_MAX_INPUTS) == op_inputs(def), kind, "op_def",
                   "one name for each input");
        check_slot(filled_names(def->out_names, OP_MAX_OUTPUTS) == op_outputs(def), kind, "op_def",
                   "one name for each output");
    }
}

/* Optimizers: the traits, the name that configs take, and a rule (check has all backends). */
static void check_optimizer(UpdateKind kind)
{
    const UpdateTraits *t = update_traits(kind);
    char text[64];
    snprintf(text, sizeof text, "optimizer %d: %s", (int)kind, t->name ? t->name : "no name");
    (void)test_check(t->name && strcmp(t->name, update_kind_names[kind]) == 0, __FILE__, __LINE__,
                     text);
    (void)test_check(t->states > 0 && t->states <= UPDATE_STATES_MAX &&
                         filled_names(t->state_names, UPDATE_STATES_MAX) == t->states,
                     __FILE__, __LINE__, text);
    CHECK_INT(update_states(kind, 0.5), t->states);
    CHECK_INT(update_states(kind, 0), t->by_momentum ? 0 : t->states);
}

static void check_rule(Backend *b, UpdateKind kind, float momentum, bool nesterov)
{
    float memory[4][8] = { { 1 }, { 1 }, { 0 }, { 0 } };
    float scalars[SCALAR_COUNT] = {
        [SCALAR_LR] = 0.5F, [SCALAR_BIAS_CORRECTION1] = 0.1F, [SCALAR_BIAS_CORRECTION2] = 0.001F
    };
    const UpdateSegment all = { .count = 1, .lr = 1 };
    const UpdateAttr attr = { .kind = kind,
                              .momentum = momentum,
                              .nesterov = nesterov,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .eps = 1e-8F,
                              .segment_count = 1,
                              .segments = &all };
    OpInstance op = { .kind = OP_UPDATE, .backend = b, .attr = &attr };
    for (int s = 0; s < 2; s++) memory[2 + s][0] = update_traits(kind)->state_start[s];
    for (int i = 0; i < 2 + update_states(kind, (double)momentum); i++)
        op.in[i] = (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ 8 }),
                               .bytes = sizeof memory[i],
                               .data = memory[i] };
    op.in[UPDATE_IN_SCALARS] =
        (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT }),
                    .bytes = sizeof scalars,
                    .data = scalars };
    REQUIRE_OK(backend_prepare_op(&op));
    CHECK_OK(b->v->ops[OP_UPDATE]->run(&op, NULL));
    CHECK_NEAR(memory[0][0], 0.5, nesterov && update_traits(kind)->nesterov ? 0.5 : 1e-6);
    CHECK_NEAR(memory[0][1], 0, 0);
    backend_release_op(&op);
}

TEST(every_optimizer_is_complete)
{
    Backend *b = NULL;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    for (int k = 0; k < UPDATE_KIND_COUNT; k++) {
        check_optimizer((UpdateKind)k);
        for (int form = 0; form < 3; form++)
            check_rule(b, (UpdateKind)k, form > 0 ? 0.9F : 0, form == 2);
    }
    CHECK(update_kind_names[UPDATE_KIND_COUNT] == NULL);
    backend_destroy(b);
}

TEST(names_are_unique)
{
    for (int a = 0; a < OP_COUNT; a++)
        for (int b = 0; b < a; b++)
            check_slot(strcmp(op_name((OpKind)a), op_name((OpKind)b)) != 0, (OpKind)a,
                       op_name((OpKind)b), "own name");
}

TEST(in_place_names_inputs)
{
    for (int k = 0; k < OP_COUNT; k++) {
        const OpDef *def = op_def((OpKind)k);
        for (int i = 0; i < op_outputs(def); i++) {
            int over = op_in_place_of((OpKind)k, i);
            check_slot(over >= -1 && over < op_inputs(def), (OpKind)k, op_name((OpKind)k),
                       "in_place_of names an input or is -1");
            for (int j = 0; j < i; j++)
                check_slot(over < 0 || over != op_in_place_of((OpKind)k, j), (OpKind)k,
                           op_name((OpKind)k), "no two outputs over one input");
        }
    }
}

/* fused: which of the ops that fusions make the backend has; of the others it has none. */
static void check_table(const BackendVTable *v, const bool *fused)
{
    CHECK(v->name && v->name[0]);
    CHECK(v->alloc && v->free && v->export_tensor && v->import_tensor);
    CHECK(v->stream_create && v->stream_destroy && v->stream_wait && v->destroy && v->describe);
    CHECK(v->alignment >= 64 && (v->alignment & (v->alignment - 1)) == 0);
    for (int k = 0; k < OP_COUNT; k++) {
        const OpImpl *impl = v->ops[k];
        const FusedFor made_for = op_fused((OpKind)k);
        if (made_for != FUSED_NOT) CHECK(v->fusion.takes != NULL);
        if (made_for != FUSED_NOT && !fused[made_for]) {
            check_slot(impl == NULL, (OpKind)k, v->name, "is never asked for");
            continue;
        }
        check_slot(impl != NULL, (OpKind)k, v->name, op_name((OpKind)k));
        if (!impl) continue;
        check_slot(impl->prepare != NULL, (OpKind)k, op_name((OpKind)k), "prepare");
        check_slot(impl->bind != NULL, (OpKind)k, op_name((OpKind)k), "bind");
        check_slot(impl->run != NULL, (OpKind)k, op_name((OpKind)k), "run");
    }
}

TEST(reference_has_every_op)
{
    Backend *b;
    REQUIRE_OK(backend_ref_create(&b));
    check_table(b->v, (bool[FUSED_COUNT]){ [FUSED_TRAINING] = true, [FUSED_EVALUATION] = true });
    backend_destroy(b);
}

TEST(cpu_has_every_op)
{
    Backend *b;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    check_table(b->v, (bool[FUSED_COUNT]){ [FUSED_EVALUATION] = true });
    backend_destroy(b);
}

TEST(cuda_has_every_op)
{
    const BackendVTable *v = backend_cuda_table();
    CHECK_INT(v != NULL, CONVOY_CUDA);
    if (!v) return;
    check_table(v, (bool[FUSED_COUNT]){ [FUSED_TRAINING] = true });
    CHECK(v->alignment >= 256);
    const DeviceVTable *d = v->device;
    REQUIRE(d != NULL);
    CHECK(d->alloc_pinned && d->free_pinned && d->copy_in && d->copy_out && d->cast);
    CHECK(d->event_create && d->event_destroy && d->event_record && d->event_wait && d->event_done);
    CHECK(d->capture_begin && d->capture_check && d->capture_end && d->replay && d->replay_destroy);
    CHECK(d->param_copy_bytes && d->params_attach && d->params_changed);
    CHECK(d->memory_bytes && d->stream_handle && d->device_index);
}
