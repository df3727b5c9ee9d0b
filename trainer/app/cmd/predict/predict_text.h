/* predict_text.h - the words that a network puts in the place of <mask>, or the classes of texts: a
 * line of input is a text of words of the dictionary, with blanks between them, or for a
 * classification two with a tab between. */
#ifndef CONVOY_TRAINER_APP_CMD_PREDICT_PREDICT_TEXT_H
#define CONVOY_TRAINER_APP_CMD_PREDICT_PREDICT_TEXT_H
#include "trainer/app/cmd/predict/predictor.h"

/* Of files; "-": standard input. checkpoint: p's, for messages. What is wrong with a line or a file
 * is said, and is ERR_DATA in the end. */
Status predict_text(Predictor *p, const char *checkpoint, int count, const char *const *files);
#endif
