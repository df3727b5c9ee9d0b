/* state.h - what a run keeps from step to step beside gradients and activations: one table of an
 * executor.
 *
 * A state is memory shaped like all parameters, like all running statistics, or a record of its
 * own. Parameters and running statistics are the first two; others are declared by what needs them
 * (trainer/engine/rules), from the config alone, so that the memory plan knows them before there
 * is any. Memory for a state is only to be had together with its row here; checkpoints, resuming,
 * the look for what is not finite, and what ranks send to one another then walk the table. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_STATE_H
#define CONVOY_TRAINER_ENGINE_EXEC_STATE_H
#include "trainer/engine/exec/executor.h"

typedef enum StateKind {
    STATE_WEIGHTS,
    STATE_OPTIMIZER,
    STATE_LOSS_SCALE,
    STATE_AVERAGES,
    STATE_KEPT, /* between two passes of a step */
    STATE_KIND_COUNT
} StateKind;
typedef enum StateShape { STATE_PARAMS, STATE_BUFFERS, STATE_RECORD } StateShape;
/* Where a checkpoint has nothing of it. */
typedef enum StateLack {
    STATE_NEEDED, /* the run cannot go on from there */
    STATE_STAYS,  /* it stays as it began */
    STATE_FOLLOWS /* it begins at the weights */
} StateLack;

enum { STATE_PREFIX_BYTES = 48, STATE_NAME_BYTES = 160 };
typedef struct StateDef {
    StateKind kind;
    StateShape shape;
    StateLack lack;
    bool saved;                      /* in checkpoints; else nothing of it outlives a step */
    float start;                     /* what a new run fills it with */
    char prefix[STATE_PREFIX_BYTES]; /* of its tensors' names in checkpoints; a record's name */
} StateDef;

typedef struct State {
    StateDef def;
    void *data; /* the backend's memory; it lies as its slab does */
    size_t bytes;
    OpTensor record; /* STATE_RECORD */
    bool owned;      /* by the table */
} State;

/* After executor_commit(). Memory filled with def->start, until state_remove() or the executor's
 * end; NULL where there are no such tensors. */
Status state_add(Executor *x, const StateDef *def, void **data);
/* A record of the executor's (executor_record()) becomes a state too. */
Status state_add_record(Executor *x, const StateDef *def, const OpTensor *record);
void state_remove(Executor *x, const void *data); /* NULL ok */

int state_count(const Executor *x);
const State *state_at(const Executor *x, int index);
const char *state_kind_name(StateKind kind); /* "optimizer state" */
/* Tensors of all that is saved, in the order of checkpoints: states in that of the table, each
 * parameter by parameter. name and whose may be NULL. */
int state_tensor_count(const Executor *x);
OpTensor state_tensor(const Executor *x, int i, char name[STATE_NAME_BYTES], const State **whose);
/* Makes a state equal to the weights that it is shaped like, and waits. */
Status state_follow(Executor *x, const State *s);
#endif
