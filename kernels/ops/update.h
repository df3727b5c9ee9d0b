/* update.h - the optimizers: a row for each, which the op, the backends, the config and the trainer
 * read; nobody else asks which kind it is but for the rule itself. */
#ifndef CONVOY_KERNELS_OPS_UPDATE_H
#define CONVOY_KERNELS_OPS_UPDATE_H
#include "kernels/op.h"

#define UPDATE_STATES_MAX 2
#define UPDATE_EPS        1e-8 /* torch.optim.Adam's */

/* In the order of UpdateKind: kind, name, states, then what differs from zero of the traits. A
 * list, so that kernels have the number of states when they are compiled. */
#define UPDATE_ROWS(ROW)                                                                           \
    ROW(SGD, "sgd", 1, .state_names = { "momentum" }, .by_momentum = true, .nesterov = true)       \
    ROW(ADAM, "adam", 2, .state_names = { "exp_avg", "exp_avg_sq" }, .counts_updates = true)       \
    ROW(ADAMW, "adamw", 2, .state_names = { "exp_avg", "exp_avg_sq" }, .counts_updates = true,     \
        .decoupled_decay = true)                                                                   \
    ROW(LARS, "lars", 1, .state_names = { "momentum" }, .by_momentum = true, .nesterov = true,     \
        .trust = TRUST_BY_GRADIENT)                                                                \
    ROW(LARS_MLPERF, "lars_mlperf", 1, .state_names = { "momentum" }, .by_momentum = true,         \
        .nesterov = true, .trust = TRUST_BY_GRADIENT, .eps = 1e-7)                                 \
    ROW(LAMB, "lamb", 2, .state_names = { "exp_avg", "exp_avg_sq" }, .counts_updates = true,       \
        .decoupled_decay = true, .trust = TRUST_BY_UPDATE, .eps = 1e-6)                            \
    ROW(RMSPROP_TF, "rmsprop_tf", 2, .state_names = { "momentum", "square_avg" },                  \
        .state_start = { 0, 1 }, .eps = 1e-3)                                                      \
    ROW(LION, "lion", 1, .state_names = { "exp_avg" }, .decoupled_decay = true,                    \
        .betas = { 0.9, 0.99 })                                                                    \
    ROW(MUON, "muon", 2, .state_names = { "exp_avg", "exp_avg_sq" }, .counts_updates = true,       \
        .decoupled_decay = true, .nesterov = true, .orthogonal = true, .eps = 1e-7,                \
        .betas = { 0.9, 0.95 })

/* What a parameter's norm is divided by for its trust ratio. */
typedef enum TrustBy { TRUST_NONE, TRUST_BY_GRADIENT, TRUST_BY_UPDATE } TrustBy;

typedef struct UpdateTraits {
    const char *name; /* in configs and listings */
    int states;       /* tensors like the parameter, UPDATE_IN_STATE0 and on */
    const char *state_names[UPDATE_STATES_MAX]; /* in checkpoints */
    float state_start[UPDATE_STATES_MAX];       /* what a new run fills them with */
    bool by_momentum;                           /* with momentum 0 it keeps no state */
    bool nesterov;                              /* Nesterov's form exists */
    bool orthogonal;      /* tensors that muon_takes() have OP_MUON before their update */
    bool counts_updates;  /* reads the bias corrections: the number of updates so far matters */
    bool decoupled_decay; /* weight decay is no part of the loss */
    TrustBy trust;        /* whether segments may have trust ratios */
    double eps;           /* as published; 0: UPDATE_EPS */
    double betas[2];      /* likewise; 0: torch.optim.Adam's */
} UpdateTraits;

const UpdateTraits *update_traits(UpdateKind kind);
int update_states(UpdateKind kind, double momentum); /* that it keeps with this momentum */
double update_eps(UpdateKind kind);                  /* as published */
const double *update_betas(UpdateKind kind);         /* likewise; two */
/* Chunks of a segment for OP_TRUST_RATIO, and of all. */
int64_t update_trust_chunks(const UpdateSegment *s);
int64_t update_all_trust_chunks(const UpdateAttr *a);
extern const char *const update_kind_names[UPDATE_KIND_COUNT + 1]; /* NULL at the end */
#endif
