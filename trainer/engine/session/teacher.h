/* teacher.h - train.teacher: a network whose evaluation of each batch a run learns from. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_TEACHER_H
#define CONVOY_TRAINER_ENGINE_SESSION_TEACHER_H
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/exec/program.h"
#include "trainer/engine/files/checkpoint_model.h"

typedef struct Teacher {
    Config
        *config; /* its network and how its images are prepared, on all ranks; NULL: no teacher */
    char *path;  /* the file; it and the model on rank 0 alone */
    CheckpointModel model;
    int64_t print; /* of its network and weights, once they are in place; 0: not known */
} Teacher;

/* Collective, agreed. Does nothing if c names no teacher. train, classes: the student's. ERR_DATA
 * naming train.teacher and the file if it holds no weights, or its network reads text, or has other
 * images or classes than the student. Call teacher_close() in any case. */
Status teacher_open(Teacher *t, const Config *c, const Dataset *train, int64_t classes, Comm *comm);
/* Its evaluation of the student's batches. The caller owns *out (graph_destroy). */
Status teacher_graph(Graph **out, const Teacher *t, const GraphOptions *student);
/* Rank 0: loads its weights into the student's program, which is committed. */
Status teacher_place(Teacher *t, Backend *backend, const Program *student);
void teacher_close(Teacher *t); /* {0} ok */
#endif
