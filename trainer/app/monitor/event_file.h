/* event_file.h - a TensorBoard event file: scalars by tag and step.
 *
 * A TFRecord file of Event messages (tensorflow/core/util/event.proto): a first record with the
 * version brain.Event:2, then one per step. TensorBoard reads while we write: records are whole,
 * one write(2) each. A continued run writes another file, which says from which step it starts, so
 * that readers drop what came later in those before. */
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
