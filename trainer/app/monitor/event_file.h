/* event_file.h - a TensorBoard event file: scalars by tag and step.
 *
 * The file is a TFRecord file of Event messages (tensorflow/core/util/event.proto), written by
 * hand: a first record tells the version brain.Event:2, each further one holds the scalars of one
 * step. TensorBoard reads while we write: records are whole, one write(2) each. A run that is
 * continued writes a file beside the earlier ones and says from which step it starts, so that
 * readers drop what came later in those. */
#ifndef CONVOY_TRAINER_APP_MONITOR_EVENT_FILE_H
#define CONVOY_TRAINER_APP_MONITOR_EVENT_FILE_H
#include "base/status.h"
#include <stdint.h>

typedef struct EventScalar {
    const char *tag; /* at most 64 bytes */
    double value;    /* kept as float */
} EventScalar;
enum { EVENT_SCALARS_MAX = 16 };

typedef struct EventFile EventFile;
/* Creates dir and in it events.out.tfevents.SECONDS.HOST.PROCESS. ERR_IO. */
Status event_file_create(EventFile **out, const char *dir, const char *host, double unix_s);
/* Readers drop what earlier files say of steps from this one on. ERR_IO. */
Status event_file_restart(EventFile *f, double unix_s, int64_t step);
/* Allocates nothing. count <= EVENT_SCALARS_MAX. ERR_IO. */
Status event_file_add(EventFile *f, double unix_s, int64_t step, const EventScalar *scalars,
                      int count);
void event_file_close(EventFile *f); /* NULL ok */
#endif
