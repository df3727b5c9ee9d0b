/* device_marks.h - how far a stream has come, readable while it runs: where it begins or ends an
 * operation, it copies the operation's number to pinned memory. The copies are part of a captured
 * step, unlike events. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_DEVICE_MARKS_H
#define CONVOY_TRAINER_ENGINE_COMM_DEVICE_MARKS_H
#include "base/status.h"
#include "kernels/backend.h"

enum { DEVICE_MARKS_NAMES = 1000 }; /* the last one is for all operations beyond them */

typedef struct DeviceMarks {
    Backend *backend;
    int32_t *codes; /* device memory: 0, 1, 2, ... to copy from */
    /* pinned: 2 i + 1: operation i has begun; 2 i + 2: it has ended; 0: none yet */
    int32_t *reached;
    /* of operations, in the order in which they were first enqueued */
    const char *names[DEVICE_MARKS_NAMES];
    _Atomic int name_count;
} DeviceMarks;

/* backend must outlive m. Waits for a copy of its own. */
Status device_marks_init(DeviceMarks *m, Backend *backend);
void device_marks_deinit(DeviceMarks *m); /* safe where init failed, or never ran on a zeroed m */
/* Enqueue. name outlives m; the same name is the same operation. */
Status device_marks_begin(DeviceMarks *m, Stream *stream, const char *name);
Status device_marks_end(DeviceMarks *m, Stream *stream, const char *name);
/* "bucket 3" where an operation is under way, else "step" or "step, after bucket 3". Any thread.
 * True if an operation is under way. */
bool device_marks_describe(const DeviceMarks *m, const char *what, char *out, size_t bytes);
#endif
