/* rig.h - raw access to a backend's memory, through its own import and export of bytes, so that the
 * check also works where the host cannot read that memory. */
#ifndef CONVOY_TESTS_OPS_RIG_H
#define CONVOY_TESTS_OPS_RIG_H
#include "tests/ops/check.h"

bool rig_is_reference(const Backend *b);
/* of a plain tensor in this backend */
size_t rig_plain_bytes(const Backend *b, const TensorDesc *d);
Status rig_write(Backend *b, void *to, size_t bytes, const void *from);
Status rig_read(Backend *b, const void *from, size_t bytes, void *to);
Status rig_import(Backend *b, Arena *arena, const OpTensor *t, const Host *from);
Status rig_export(Backend *b, Arena *arena, const OpTensor *t, Host *to);

/* Memory with guard bytes before and behind it. */
typedef struct Guarded {
    unsigned char *base, *data;
    size_t bytes;
} Guarded;
Status guarded_alloc(Backend *b, Arena *arena, size_t bytes,
                     Guarded *out); /* data is filled with 0xFF: NaN in every float type */
Status guarded_check(Backend *b, Arena *arena, const Guarded *g, const char *what);
void guarded_free(Backend *b, Guarded *g);
#endif
