/* teacher.h - train.teacher: a network whose evaluation of each batch a run learns from. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_TEACHER_H
#define CONVOY_TRAINER_ENGINE_SESSION_TEACHER_H
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/exec/program.h"
#include "trainer/engine/files/checkpoint_model.h"

typedef struct Teacher {
    Config *config; /* its network and its images, on all ranks; NULL: there is no teacher */
    char *path;     /* the file; it and the model on rank 0 alone */
    CheckpointModel model;
    int64_t print; /* of its network and weights, once they are in place; 0: not known */
} Teacher;

/* Collective and agreed; nothing where c names no teacher. train: the set of the student, which has
 * that many classes. ERR_DATA naming train.teacher and the file: no weights of a network, or of one
 * that reads text, or other images or classes than the student's. teacher_close() in any case. */
Status teacher_open(Teacher *t, const Config *c, const Dataset *train, int64_t classes, Comm *comm);
/* Its evaluation of such batches; returns to caller (graph_destroy). */
Status teacher_graph(Graph **out, const Teacher *t, const GraphOptions *student);
/* On rank 0: its weights, where a program of the student (after commit) has them. */
Status teacher_place(Teacher *t, Backend *backend, const Program *student);
void teacher_close(Teacher *t); /* {0} ok */
#endif
