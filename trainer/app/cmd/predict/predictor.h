/* predictor.h - a network with its weights, ready to answer, and how answers are printed: for
 * pictures (cmd_predict.c) and for text (predict_text.c). */
#ifndef CONVOY_TRAINER_APP_CMD_PREDICT_PREDICTOR_H
#define CONVOY_TRAINER_APP_CMD_PREDICT_PREDICTOR_H
#include "kernels/backend.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/files/foreign_model.h"

enum { PREDICTOR_PROGRAMS = 3 };

typedef enum PredictForm { PREDICT_TEXT, PREDICT_CSV, PREDICT_JSON } PredictForm;

typedef struct Predictor {
    CheckpointModel model;
    Backend *backend;
    Executor *executor;
    /* They own their graphs. Of text in canvases of several sizes, ascending, the last one that of
     * the longest sequence; of images one. */
    Program *programs[PREDICTOR_PROGRAMS];
    int program_count;
    int64_t rows;  /* of the logits */
    float *logits; /* [rows * classes] */
    int64_t *top;  /* [count], of which an answer has found */
    int64_t count, found;
    bool count_given;
    bool multi;        /* answers are all classes above the model's threshold */
    double threshold;  /* chosen instead of the model's; below 0: not */
    int64_t senseless; /* answers in which no finite numbers came out */
    WeightsChoice which;
    ForeignModel foreign; /* of --model */
    int place;            /* as device.backend */
    int precision;        /* as train.precision */
    bool place_given, precision_given;
    PredictForm form;
} Predictor;

/* What an answer is about. */
typedef struct PredictPlace {
    const char *file;
    int64_t line, position; /* of text: of the file, from 1; of the masked word; else 0 */
} PredictPlace;

/* What the choices in p say, of the checkpoint or the weights at path. */
Status predictor_open(Predictor *p, const char *path);
void predictor_close(Predictor *p);
/* Runs a program whose inputs are set; then logits are those of its rows. */
Status predictor_run(Predictor *p, Program *program);
/* Prints the classes of a row by their probability, which take the row's place. ERR_DATA: it holds
 * what is no finite number. */
Status predictor_answer(Predictor *p, const PredictPlace *at, int64_t row);
#endif
