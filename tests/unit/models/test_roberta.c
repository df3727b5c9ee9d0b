/* test_roberta.c - RoBERTa and BERT against transformers: files made by
 * scripts/golden/make_text_golden.py hold words and float64 results for weights of a formula, which
 * come in by a file under transformers' names. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "trainer/engine/files/weights.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SEQUENCES = 4,
    TOKENS = 32,
    WORDS = 200,
    CLASSES = 3,
    PLACES = SEQUENCES * TOKENS,
    SPARE = 3
};

/* A network on host memory with its inputs. */
typedef struct Text {
    const ModelDef *def;
    const char *file;
    Backend *backend;
    Executor *executor;
    Program *program;
    const Graph *graph;
    int32_t ids[PLACES], where[PLACES][2], starts[SEQUENCES + 1], order[PLACES], segments[PLACES],
        rows[PLACES], labels[PLACES];
    int masked; /* rows of the head; some of them nobody's */
} Text;

static int read_ints(const Text *t, const char *name, int32_t *out)
{
    static double values[GOLDEN_VALUES];
    const int count = golden_read(t->file, name, values);
    for (int i = 0; i < count; i++) out[i] = (int32_t)values[i];
    return count;
}

static void sort_places(Text *t)
{
    for (int i = 0; i < PLACES; i++) {
        const uint32_t id = (uint32_t)t->ids[i];
        int at = i;
        for (; at > 0 && (uint32_t)t->ids[t->order[at - 1]] > id; at--)
            t->order[at] = t->order[at - 1];
        t->order[at] = i;
    }
}

/* The canvas of the padded words of the file. */
static void lay_out(Text *t)
{
    int32_t lengths[SEQUENCES], padded[PLACES], masked[PLACES];
    int place = 0;
    CHECK_INT(read_ints(t, "lengths", lengths), SEQUENCES);
    CHECK_INT(read_ints(t, "ids", padded), PLACES);
    const int count = read_ints(t, "rows", masked);
    for (int i = 0; i < PLACES; i++) {
        t->ids[i] = t->where[i][0] = t->where[i][1] = t->segments[i] = t->rows[i] = -1;
        t->labels[i] = -1;
    }
    for (int n = 0; n < SEQUENCES; n++) {
        t->starts[n] = place;
        for (int s = 0; s < lengths[n]; s++, place++) {
            t->ids[place] = padded[n * TOKENS + s];
            t->where[place][0] = n;
            t->where[place][1] = s;
            t->segments[place] = s >= lengths[n] / 2;
            for (int k = 0; k < count; k++)
                if (masked[k] == n * TOKENS + s) t->rows[k] = place;
        }
    }
    t->starts[SEQUENCES] = place;
    t->masked = count + SPARE;
    read_ints(t, "labels", t->labels);
    sort_places(t);
}

static void set(Text *t, const char *name, const void *data)
{
    if (graph_input(t->graph, name) != TENSOR_NONE)
        CHECK_OK(program_set_input(t->program, name, data));
}

static ModelOptions options(const Text *t, bool words, bool training)
{
    ModelOptions o = { .width = 0.25, .layers = 2 };
    o.graph = (GraphOptions){ .batch = SEQUENCES,
                              .tokens = TOKENS,
                              .words = WORDS,
                              .classes = words ? WORDS : CLASSES,
                              .masked = words ? t->masked : 0,
                              .training = training };
    return o;
}

static void open_text(Text *t, bool ref, const char *model, const char *file, bool training)
{
    Graph *g = NULL;
    const bool words = strstr(file, "words") != NULL;
    *t = (Text){ .def = model_find(model), .file = file };
    lay_out(t);
    const ModelOptions o = options(t, words, training);
    if (ref) REQUIRE_OK(backend_ref_create(&t->backend));
    else REQUIRE_OK(backend_cpu_create(&t->backend, &(CpuOptions){ .fuse = FUSE_NONE }));
    REQUIRE_OK(executor_create(&t->executor, t->backend));
    REQUIRE_OK(model_build(&g, t->def, &o));
    REQUIRE_OK(executor_add(t->executor, g, false, &t->program));
    REQUIRE_OK(executor_commit(t->executor));
    t->graph = program_graph(t->program);
    set(t, "ids", t->ids);
    set(t, "where", t->where);
    set(t, "starts", t->starts);
    set(t, "order", t->order);
    set(t, "segments", t->segments);
    set(t, "rows", t->rows);
    set(t, "labels", t->labels);
}

static void close_text(Text *t)
{
    executor_destroy(t->executor);
    backend_destroy(t->backend);
}

/* ---- weights, by a file ---- */

typedef struct Draft {
    WeightList list;
    SafeTensor tensors[128];
    float *values[128];
    int count;
} Draft;

static double formula(const Weight *w, double u)
{
    const size_t length = strlen(w->other);
    if (w->desc.rank == 2) return (2 * u - 1) * sqrt(3.0 / (double)w->desc.dims[1]);
    return length > 6 && strcmp(w->other + length - 6, "weight") == 0 ? 0.5 + u : 0.2 * u - 0.1;
}

/* Without the decoder's copies. */
static void make_draft(Draft *d, const Text *t)
{
    *d = (Draft){ .count = 0 };
    REQUIRE_OK(weights_list(&d->list, t->graph, t->def, MODEL_NAMES_HF));
    for (int i = 0; i < d->list.count; i++) {
        const Weight *w = &d->list.items[i];
        const int64_t count = tensor_elements(&w->desc);
        if (w->kind == WEIGHT_COPY) continue;
        REQUIRE(d->count < 128);
        float *values = d->values[d->count] = mem_alloc((size_t)count * sizeof *values);
        for (int64_t k = 0; k < count; k++)
            values[k] = (float)formula(w, network_uniform(network_stream(w->other), (uint32_t)k));
        d->tensors[d->count++] = (SafeTensor){ .name = w->other, .desc = w->desc, .data = values };
    }
}

static void free_draft(Draft *d)
{
    for (int i = 0; i < d->count; i++) mem_free(d->values[i]);
    weights_free(&d->list);
}

static Status restore(Text *t, const SafeTensor *tensors, int count, HeadRows *rows)
{
    SafeFile *file = NULL;
    char scratch[64]; /* tests run side by side */
    snprintf(scratch, sizeof scratch, "build/test_roberta.%d.safetensors", (int)getpid());
    CHECK_OK(safetensors_write(scratch, tensors, count, NULL, 0));
    CHECK_OK(safetensors_open(&file, scratch));
    const Status status = weights_restore(t->executor, t->graph, t->def, file, scratch, rows);
    safetensors_close(file);
    remove(scratch);
    return status;
}

/* ---- against transformers ---- */

/* Of the reference the doubles that it computes with. */
static double *read_tensor(const Text *t, TensorId id, int64_t *count)
{
    const OpTensor *tensor = program_tensor(t->program, id);
    *count = tensor_elements(&tensor->desc);
    double *out = mem_alloc((size_t)*count * sizeof *out);
    float *values = mem_alloc((size_t)*count * sizeof *values);
    if (tensor->bytes == (size_t)*count * sizeof *out) {
        memcpy(out, tensor->data, tensor->bytes);
    } else {
        CHECK_OK(t->backend->v->export_tensor(t->backend, tensor, values));
        for (int64_t i = 0; i < *count; i++) out[i] = (double)values[i];
    }
    mem_free(values);
    return out;
}

static void check_values(const Text *t, const char *name, TensorId id, double bound)
{
    static double want[GOLDEN_VALUES];
    double worst = 0, largest = 0;
    int64_t count = 0;
    double *got = read_tensor(t, id, &count);
    const int there = golden_read(t->file, name, want);
    REQUIRE(there > 0 && there <= count);
    for (int i = 0; i < there; i++) {
        worst = fmax(worst, fabs(got[i] - want[i]));
        largest = fmax(largest, fabs(want[i]));
    }
    if (!test_check(worst <= bound * largest, __FILE__, __LINE__, name))
        printf("    off by %.3g of %.3g\n", worst, largest);
    CHECK(largest > 0.1);
    mem_free(got);
}

/* A key's bias is taken from all of a row of the softmax, so its gradient is rounding alone. */
static bool is_zero(const char *name)
{
    return strstr(name, ".key.bias") != NULL;
}

/* Returns how far off it is, of its largest element. The file's is of the mean of all losses. */
static double check_gradient(const Text *t, const Weight *w, int losses, double bound)
{
    double want[GOLDEN_VALUES], worst = 0, norm = 0, projection = 0, largest = 0;
    char name[200];
    int64_t whole = 0;
    const int64_t count = tensor_elements(&w->desc);
    const TensorId grad = graph_tensor(t->graph, graph_find(t->graph, w->name))->grad;
    snprintf(name, sizeof name, "grad.%s", w->other);
    const int elements = golden_read(t->file, name, want) - 3;
    if (!test_check(elements >= 3 && grad != TENSOR_NONE, __FILE__, __LINE__, name)) return 0;
    double *all = read_tensor(t, grad, &whole), *got = all + w->from;
    for (int64_t i = 0; i < count; i++) {
        got[i] /= losses;
        norm += got[i] * got[i];
        largest = fmax(largest, fabs(got[i]));
        projection += got[i] * (2 * network_uniform(network_stream(w->other) + 1, (uint32_t)i) - 1);
    }
    for (int i = 0; i < elements; i++)
        worst = fmax(worst, fabs(got[((int64_t)i * 7919 + 13) % count] - want[3 + i]));
    worst = fmax(worst, fabs(largest - want[0]));
    worst = fmax(worst, fabs(sqrt(norm) - want[1]) / sqrt((double)count));
    worst = fmax(worst, fabs(projection - want[2]) / sqrt((double)count));
    mem_free(all);
    if (is_zero(name)) {
        test_check(largest < 1e-7, __FILE__, __LINE__, name);
        return 0;
    }
    if (!test_check(worst <= bound * want[0], __FILE__, __LINE__, name))
        printf("    off by %.3g of %.3g\n", worst, want[0]);
    return worst / want[0];
}

/* Of the tensors that have one by themselves. */
static void check_gradients(const Text *t, const WeightList *list, int losses, double bound,
                            int least)
{
    double worst = 0;
    int checked = 0;
    for (int i = 0; i < list->count; i++) {
        const Weight *w = &list->items[i];
        if (w->spare || (w->kind != WEIGHT_WHOLE && w->kind != WEIGHT_PART)) continue;
        worst = fmax(worst, check_gradient(t, w, losses, bound));
        checked++;
    }
    printf("    %s: gradients off by at most %.3g of their largest\n", t->file, worst);
    CHECK(checked >= least);
}

typedef struct Bounds {
    double logits, gradients, loss;
} Bounds;

static void run(Text *t, const Draft *d)
{
    const float scalars[SCALAR_COUNT] = { [SCALAR_GRAD_SCALE] = 1 };
    REQUIRE_OK(restore(t, d->tensors, d->count, NULL));
    REQUIRE_OK(executor_set_record(t->executor, "scalars", scalars));
    REQUIRE_OK(executor_run(t->executor, t->program, NULL));
}

static void check_network(bool ref, const char *model, const char *file, int least)
{
    static const Bounds bounds[] = { { 2e-6, 1e-5, 1e-6 }, { 1e-9, 1e-9, 1e-9 } };
    const Bounds *b = &bounds[ref];
    const bool words = strstr(file, "words") != NULL;
    double want[GOLDEN_VALUES];
    for (int training = 0; training < 2; training++) {
        Text t;
        Draft d;
        open_text(&t, ref, model, file, training);
        make_draft(&d, &t);
        const int count = words ? t.masked - SPARE : SEQUENCES;
        run(&t, &d);
        REQUIRE(golden_read(file, "loss", want) == 1);
        CHECK_NEAR(program_stats(t.program)[STATS_LOSS_SUM] / count, want[0], b->loss * want[0]);
        if (training) check_gradients(&t, &d.list, count, b->gradients, least);
        else check_values(&t, "logits", graph_logits(t.graph), b->logits);
        free_draft(&d);
        close_text(&t);
    }
}

TEST(roberta_that_guesses_words_is_transformers)
{
    check_network(false, "roberta_mini", "roberta_words", 41);
    check_network(true, "roberta_mini", "roberta_words", 41);
}
TEST(roberta_that_classifies_is_transformers)
{
    check_network(false, "roberta_mini", "roberta_classes", 40);
    check_network(true, "roberta_mini", "roberta_classes", 40);
}
TEST(bert_that_guesses_words_is_transformers)
{
    check_network(false, "bert_mini", "bert_words", 42);
    check_network(true, "bert_mini", "bert_words", 42);
}
TEST(bert_that_classifies_is_transformers)
{
    check_network(false, "bert_mini", "bert_classes", 41);
    check_network(true, "bert_mini", "bert_classes", 41);
}

/* ---- files ---- */

static int find_tensor(const Draft *d, const char *name)
{
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->tensors[i].name, name) == 0) return i;
    CHECK(!"no such tensor");
    return 0;
}

/* Copies of what the decoder shares, as transformers writes them, must be the same; numbers of
 * positions do not count; LayerNorms may have the names of old files. */
TEST(copies_of_tied_weights_are_taken_once)
{
    Text t;
    Draft d;
    open_text(&t, false, "roberta_mini", "roberta_words", false);
    make_draft(&d, &t);
    const int64_t numbers[TOKENS] = { 0 };
    const int words = find_tensor(&d, "roberta.embeddings.word_embeddings.weight"),
              norm = find_tensor(&d, "roberta.embeddings.LayerNorm.weight");
    SafeTensor copy = d.tensors[words], more = d.tensors[words];
    copy.name = "lm_head.decoder.weight";
    more.name = "roberta.embeddings.position_ids";
    more.desc = tensor_desc(DTYPE_I64, 2, (const int64_t[]){ 1, TOKENS });
    more.data = numbers;
    d.tensors[norm].name = "roberta.embeddings.LayerNorm.gamma";
    d.tensors[d.count] = copy;
    d.tensors[d.count + 1] = more;
    CHECK_STATUS(restore(&t, d.tensors, d.count + 2, NULL), OK);
    d.tensors[d.count].data = d.values[words] + 1;
    d.tensors[d.count].desc.dims[0]--;
    d.tensors[d.count + 1] = d.tensors[d.count];
    CHECK_STATUS(restore(&t, d.tensors, d.count + 1, NULL), ERR_DATA);
    CHECK_CONTAINS(status_message(), "lm_head.decoder.weight");
    free_draft(&d);
    close_text(&t);
}

/* A head for classes on an encoder that has learnt words. */
TEST(heads_of_other_tasks_are_left_out)
{
    Text t, other;
    Draft d;
    int from[CLASSES] = { 0, 1, 2 };
    HeadRows rows = { .from = from };
    open_text(&t, false, "bert_mini", "bert_words", false);
    open_text(&other, false, "bert_mini", "bert_classes", false);
    make_draft(&d, &t);
    CHECK_STATUS(restore(&other, d.tensors, d.count, &rows), OK);
    CHECK_INT(rows.taken, 0);
    CHECK_STR(rows.fresh.text, "classifier");
    CHECK_STATUS(restore(&other, d.tensors, d.count, NULL), ERR_DATA);
    const int query = find_tensor(&d, "bert.encoder.layer.1.attention.self.query.bias");
    d.tensors[query].name = "bert.encoder.layer.1.attention.self.querry.bias";
    CHECK_STATUS(restore(&other, d.tensors, d.count, &rows), ERR_DATA);
    CHECK_CONTAINS(status_message(), "missing: bert.encoder.layer.1.attention.self.query.bias");
    str_free(&rows.fresh);
    free_draft(&d);
    close_text(&t);
    close_text(&other);
}

/* A file of more positions gives the first ones, of more words none. */
TEST(a_longer_table_of_positions_is_cut)
{
    static const char positions[] = "bert.embeddings.position_embeddings.weight";
    Text t;
    Draft d;
    int64_t count = 0;
    open_text(&t, false, "bert_mini", "bert_classes", false);
    make_draft(&d, &t);
    const int at = find_tensor(&d, positions),
              words = find_tensor(&d, "bert.embeddings.word_embeddings.weight");
    static float longer[3 * TOKENS * 64];
    for (int i = 0; i < 3 * TOKENS * 64; i++) longer[i] = (float)i;
    d.tensors[at].data = longer;
    d.tensors[at].desc.dims[0] = 3 * TOKENS;
    CHECK_STATUS(restore(&t, d.tensors, d.count, NULL), OK);
    double *got = read_tensor(&t, graph_find(t.graph, positions), &count);
    CHECK_INT(count, TOKENS * 64);
    int64_t same = 0;
    while (same < count && got[same] == (double)same) same++;
    CHECK_INT(same, count);
    mem_free(got);
    d.tensors[words].desc.dims[0]--;
    CHECK_STATUS(restore(&t, d.tensors, d.count, NULL), ERR_DATA);
    CHECK_CONTAINS(status_message(), "with another shape: bert.embeddings.word_embeddings.weight");
    free_draft(&d);
    close_text(&t);
}

/* ---- dropout ---- */

TEST(single_values_are_dropped_in_training_alone)
{
    static const char *const networks[] = { "roberta_base", "bert_base" };
    for (int i = 0; i < 4; i++) {
        Text t = { .def = model_find(networks[i / 2]), .masked = 4 };
        Graph *g = NULL;
        int drops = 0, attentions = 0;
        ModelOptions o = options(&t, true, i % 2);
        o.layers = 2;
        o.dropout = o.attention_dropout = -1; /* as published */
        REQUIRE_OK(model_build(&g, t.def, &o));
        for (int n = 0; n < graph_node_count(g); n++) {
            const GraphNode *node = graph_node(g, n);
            const AttentionAttr *attention = node->attr;
            const DropAttr *a = node->kind == OP_ATTENTION ? &attention->drop : node->attr;
            if (node->kind != OP_ATTENTION && node->kind != OP_DROP) continue;
            CHECK_NEAR((double)a->rate, i % 2 ? 0.1 : 0, 1e-7);
            CHECK(!a->per_image);
            attentions += node->kind == OP_ATTENTION;
            drops += node->kind == OP_DROP;
        }
        CHECK_INT(attentions, 2);
        CHECK_INT(drops, i % 2 ? 1 + 2 * 2 : 0); /* embeddings, and both halves of a layer */
        graph_destroy(g);
    }
}

/* ---- the gradient of what two layers share ---- */

TEST(the_words_gradient_is_complete_last)
{
    Text t;
    const char **names = NULL;
    Bucket *buckets = NULL;
    int count = 0;
    open_text(&t, false, "roberta_mini", "roberta_words", true);
    const TensorId words = graph_find(t.graph, "roberta.embeddings.word_embeddings.weight"),
                   grad = graph_tensor(t.graph, words)->grad;
    const GraphTensor *d = graph_tensor(t.graph, grad);
    const PlanEntry *e = &program_plan(t.program)->entries[grad];
    CHECK(graph_node(t.graph, d->producer)->kind == OP_LINEAR_BWD_WEIGHTS);
    CHECK(graph_node(t.graph, d->last_writer)->kind == OP_EMBED_BWD);
    CHECK_INT(d->last_writer, graph_node_count(t.graph) - 1);
    CHECK_OK(plan_param_order(program_plan(t.program), t.graph, &names, &count));
    CHECK_STR(names[count - 1], graph_tensor(t.graph, words)->name);
    mem_free(names);
    CHECK_OK(plan_buckets(program_plan(t.program), t.graph, e->bytes, e->bytes, &buckets, &count));
    CHECK(count > 1 && buckets[count - 1].offset == e->offset);
    CHECK_INT(buckets[count - 1].ready_after, d->last_writer);
    CHECK(buckets[count - 2].ready_after <= d->last_writer);
    mem_free(buckets);
    close_text(&t);
}
