/* check.h - what the files of the op check share. See main.c for what the check is.
 *
 * A FAMILY is one row per op: its named integer parameters, fixed and drawn problems, how a problem
 * becomes attributes and shapes, how its inputs are filled. A CASE is a family, values for its
 * parameters, and a VARIANT: how to compare, which layouts, what lies over what. A case has a text
 * form, "conv2d n=2 c=3 ... | exact weights=forward", which is printed when it fails and can be
 * given to --case. Everything random in a case is drawn from the seed and that text, so a case
 * gives the same numbers alone as in company.
 *
 * Host values of every element type are kept as double: exact for all the types there are. */
#ifndef CONVOY_TESTS_OPS_CHECK_H
#define CONVOY_TESTS_OPS_CHECK_H
#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "kernels/backend.h"

#define CASE_MAX_PARAMS      16
#define PROBLEM_MAX_SEGMENTS 4

typedef struct ParamDef {
    const char *name;
    int64_t standard;
} ParamDef; /* table ends with name NULL */

typedef enum Mode { MODE_EXACT, MODE_FLOAT, MODE_NAN, MODE_COUNT } Mode;
typedef enum Weights {
    WEIGHTS_FREE,
    WEIGHTS_FORWARD,
    WEIGHTS_PLAIN,
    WEIGHTS_COUNT
    /* who decided the weights' layout: nobody (forward only), a forward op of another batch size,
     * or
 * the check itself, plain */
} Weights;
typedef struct Variant {
    Mode mode;
    Weights weights;
    bool plain; /* activations are plain where the backend would choose otherwise */
    /* activations of rank 2 lie as a linear layer leaves them, which may be wider than others */
    bool wide;
    bool accumulate;
    unsigned in_place; /* bit i: output i lies over its input */
} Variant;

typedef struct Host {
    TensorDesc desc;
    double *v;
} Host; /* rank 0: absent */

typedef union Attr {
    InputAttr input;
    Conv2dAttr conv;
    BatchNormAttr bn;
    BnPoolAttr bn_pool;
    Conv2dBnAttr conv_bn;
    BnFinalizeAttr bn_finalize;
    ActivationAttr activation;
    GateAttr gate;
    Pool2dAttr pool;
    SubsampleAttr subsample;
    XentAttr xent;
    UpdateAttr update;
    ScaleAttr scale;
    LossScaleAttr loss_scale;
    GradNormAttr grad_norm;
    LerpAttr lerp;
    DropAttr drop;
    LayerNormAttr layernorm;
    AttentionAttr attention;
    EmbedAttr embed;
    PickAttr pick;
    MuonAttr muon;
} Attr;

/* What the parameters of a case mean. Not copied around: update's attribute points into it. */
typedef struct Problem {
    OpKind kind;
    Attr attr;
    UpdateSegment segments[PROBLEM_MAX_SEGMENTS];
    /* out: preset before, complete after problem_make() */
    TensorDesc in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    bool wanted[OP_MAX_OUTPUTS];
    bool exact;    /* integer inputs give exact results (divisions by powers of two, if any) */
    int64_t terms; /* longest sum behind one element of a result: K of the float bound */
} Problem;

enum {
    /* sums of products: has an exact mode; the bound's S is the op on absolute values */
    FAMILY_EXACT = 1,
    FAMILY_ACCUMULATES = 2, /* has outputs that are gradients of parameters */
    FAMILY_NAN = 4,         /* a NaN must come through */
    FAMILY_WEIGHTS = 8      /* has a weight tensor whose layout is negotiated */
};

typedef struct Family {
    OpKind kind;
    unsigned flags;
    double max_zero_share; /* of any result; above it the case proves nothing */
    int draws;             /* random problems */
    const ParamDef *params;
    const char *const *fixed; /* problems as text, NULL at the end; act=*, kind=*: each */
    void (*draw)(Rng *rng, int64_t *p);
    /* out->kind is set */
    void (*build)(const int64_t *p, Problem *out);
    /* NULL: fill_default */
    void (*fill)(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in);
} Family;

typedef struct Case {
    const Family *family;
    int64_t p[CASE_MAX_PARAMS];
    Variant variant;
} Case;

/* families.c */
const Family *family_of(OpKind kind); /* every op has one; NULL is reported by main as a failure */

/* case.c - the text form and lists of cases */
void case_format(const Case *c, StrBuf *out);
Status case_parse(const char *text, Case *out); /* ERR_USAGE */
Rng case_rng(const Case *c, uint64_t seed);
typedef struct CaseList {
    Case *cases;
    int count, capacity;
    bool failed;
} CaseList; /* zero-initialise; mem_free(cases) */
void case_list_add(CaseList *list, const Case *c);
/* The fixed problems of a family, act=* as one for each activation that the op does not refuse by
 * its name, kind=* as one for each kind. */
Status case_list_fixed(CaseList *list, const Family *f);
/* All cases of a family: fixed, drawn and those of the shape files, each in its variants. */
Status case_list_family(CaseList *list, const Family *f, uint64_t seed, const char *shape_folder);
Status case_list_bench(CaseList *list, const char *path);
Status problem_make(const Case *c, Problem *out); /* build and infer */
void problem_format(const Problem *p, char *out, size_t bytes);

/* subject.c - what the check must know of the backend under test: which layouts it takes, and to
 * what it rounds */
typedef struct Subject {
    Backend *backend;
    /* activations and factors of products; f32 for backends that know no other type */
    DType compute;
    bool tf32;               /* products of f32 round their factors to 11 bits */
    bool own_layouts;        /* no other than those it decides itself */
    bool fuses[FUSED_COUNT]; /* it has the ops that op_fused() marks so */
    bool pools_norms;        /* of those, OP_BN_POOL and its gradient */
    bool signs_norms;        /* of those, OP_BN_SIGNS, its gradient, OP_BN_STATISTICS */
    /* rounded to the compute type before anything else */
    bool rounds_dz;      /* of batchnorm_bwd */
    bool rounds_weights; /* of attention, and the gradients of its scores */
    bool wide_sums;      /* a convolution's gradient of weights is f32 from the first */
    bool pairs;          /* multiplies two channels of bf16 at a time */
    bool products_only;  /* of ops those that are matrix products on some CPUs */
    bool winograd;       /* of ops those that are Winograd's convolutions */
    int pad;             /* grouped convolutions need multiples of so many channels; 1 = any */
} Subject;
bool subject_takes(const Subject *s, const Case *c); /* the case's variant exists for it */
/* prepare() must say no, with ERR_USAGE */
bool subject_refuses(const Subject *s, const Problem *p);
double subject_nearest(DType type, double v);
/* Rounds the values of in to what the prepared instance will see, so that reference and backend
 * start from the same. */
Status subject_round_inputs(const Subject *s, Arena *arena, const OpInstance *op, Host *in);
/* The type that the gradient of a convolution's weights has before it is converted into its
 * tensor. */
DType subject_product_type(const Subject *s, const OpInstance *op);
/* The type in which the backend keeps t. */
Status subject_type_of(const Subject *s, Arena *arena, const OpTensor *t, DType *out);

/* fill.c */
Status host_make(Arena *arena, Host *out, const TensorDesc *desc);
void fill_default(const Problem *p, Mode mode, Rng *rng, Host *in);
void fill_integers(Host *t, Rng *rng, int64_t limit); /* -limit..limit without 0 */
void fill_normal(Host *t, Rng *rng, double mean, double deviation);
/* multiples of 1/64, all different within any window: for maxima */
void fill_distinct(Host *t, Rng *rng);
void fill_clusters(Host *t, Rng *rng,
                   /* per channel two clusters, far from their middle: for ReLU behind a norm */
                   double offset);
double fill_float(double v); /* nearest float */

/* rig.c - one op on one backend */
/* what a run left behind; index: outputs first, then inputs that are updated in place */
typedef struct Result {
    Host out[OP_MAX_OUTPUTS], in[OP_MAX_INPUTS];
    uint8_t *raw_out[OP_MAX_OUTPUTS], *raw_in[OP_MAX_INPUTS]; /* physical bytes */
} Result;
typedef struct Rig {
    Backend *backend;
    const Problem *problem;
    Variant variant;
    OpInstance op;
    Stream *stream;
} Rig;
bool op_updates_input(const Problem *p, int slot);
bool op_out_is_gradient(OpKind kind, int slot); /* accumulates */
Status rig_create(Rig *rig, Backend *b, const Problem *p, const Variant *v);
void rig_destroy(Rig *rig);
/* One run in fresh guarded buffers. start[i]: what an accumulating output holds before. Checks
 * guards, untouched inputs, padding. */
Status rig_run(Rig *rig, Arena *arena, const Host *in, const Host *start, Result *out);
bool rig_can_lie_over(const Rig *rig, int out_slot);

/* layouts.c - what the backend itself would decide for tensors made by other ops */
Status layouts_decide_inputs(Backend *b, const Problem *p, const Variant *v, OpInstance *op);
/* The input that holds the op's weights, of which a backend may keep a copy in another type; -1:
 * none. */
int layouts_weight_input(OpKind kind);
bool layouts_is_product(OpKind kind); /* convolution, linear, and their gradients */

/* compare.c, tolerance.c */
typedef struct Verdict {
    double worst; /* error / bound, at most 1 passes */
} Verdict;
typedef enum Bound {
    BOUND_EQUAL, /* (float)ref == got */
    /* c eps growth(K) S + eps |ref|, growth = sqrt for large K, S = the op on absolute values */
    BOUND_SUM,
    BOUND_MAX, /* c eps max |ref| over the tensor */
    /* c (unit of the compute type + eps growth(K)) S: behind something rounded to that type */
    BOUND_TYPE,
    BOUND_TYPE_MAX, /* c (unit of the compute type + eps growth(K)) max |ref| over the tensor */
    BOUND_ELEMENT,  /* c eps |ref| */
    BOUND_NORM,     /* c eps S + eps |ref|, S from tolerance_norm.c */
    BOUND_STATS     /* loss sum: c eps |ref|; the counts equal */
} Bound;
typedef struct ToleranceRow {
    OpKind kind;
    bool input; /* an input updated in place, else an output */
    int slot;
    Bound bound;
    double c;
} ToleranceRow;
const ToleranceRow *tolerance_row(OpKind kind, bool input, int slot); /* NULL: no such result */
/* S for results of batch norm, per element of the result. in: the op's inputs, ref: the reference's
 * results. */
void tolerance_norm_scale(const Problem *p, const Host *in, const Result *ref, bool input, int slot,
                          double *scale);
/* S of a convolution's results (not of a bias's gradient), beside what direct sums are allowed. */
Status tolerance_winograd_scale(Arena *arena, const Problem *p, const Host *in, double *scale);
/* Results that are kept in another type than f32, or go through it, may be off by its rounding on
 * top. */
typedef struct Comparison {
    const Subject *subject;
    const Problem *problem;
    const Family *family;
    Variant variant;
    const Host *in, *start;             /* start: what accumulating outputs held before */
    DType out_type[OP_MAX_OUTPUTS];     /* as the backend keeps them */
    DType product_type;                 /* as a product comes out of the library */
    const Result *ref, *absolute, *got; /* absolute: NULL where no row needs it */
} Comparison;
Status compare_results(Arena *arena, const Comparison *c, Verdict *verdict);

/* run_case.c, gradient.c, bench.c: ERR_HEALTH with a sentence on what is wrong. */
Status run_case(const Case *c, const Subject *subject, Backend *ref, uint64_t seed,
                Verdict *verdict);
int gradient_count(void);
void gradient_name(int row, char *out, size_t bytes);
Status gradient_check(int row, Backend *ref, uint64_t seed, Verdict *verdict);
Status bench_case(const Case *c, Backend *backend, uint64_t seed);

/* report.c - the only file here that writes to stdout */
void report(const char *format, ...) PRINTF_LIKE(1, 2);
#endif
