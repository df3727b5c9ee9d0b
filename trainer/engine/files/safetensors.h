/* safetensors.h - reads and writes the safetensors format (8-byte little-endian header length, JSON
 * header, tensor bytes).
 *
 * Bounds-checked: a hostile or torn file is ERR_DATA with one sentence that names it, never a wild
 * read or a huge allocation. The writer stores the CRC-32C of the data section in the metadata
 * ("crc32c", 8 hex digits), the reader checks it when it is there. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_SAFETENSORS_H
#define CONVOY_TRAINER_ENGINE_FILES_SAFETENSORS_H
#include "base/arena.h"
#include "base/status.h"
#include "kernels/tensor.h"

typedef struct SafeTensor {
    const char *name;
    TensorDesc desc;  /* F32 here; other dtypes are read and reported as they are */
    const void *data; /* plain row-major; in files of other writers at any address */
} SafeTensor;
typedef struct SafePair {
    const char *key, *value;
} SafePair; /* __metadata__ entries */

/* Writes as fs_write_atomic() does. ERR_IO (disk full, no permission) leaves no temporary file and
 * path as it was. */
Status safetensors_write(const char *path, const SafeTensor *tensors, int tensor_count,
                         const SafePair *metadata, int pair_count);

typedef struct SafeFile SafeFile;
/* Reads the file into memory, checks header, bounds, overlap and CRC. ERR_DATA also where it cannot
 * be read, or changes meanwhile; ERR_MEMORY where it does not fit into what is free. */
Status safetensors_open(SafeFile **out, const char *path);
/* The same for its metadata alone: none of its tensors is read. */
Status safetensors_open_header(SafeFile **out, const char *path);
/* Makes one of the tensors that another reader has found in bytes. It takes over these, tensors and
 * the arena of their names, also where it fails: ERR_DATA naming path for a name that is not text,
 * or is there twice. */
Status safetensors_adopt(SafeFile **out, const char *path, uint8_t *bytes, Arena *arena,
                         SafeTensor *tensors, int count);
/* Gives each tensor the name that rename() sets, or drops it where that is NULL. ERR_DATA where two
 * get the same. */
Status safetensors_rename(SafeFile *f, Status (*rename)(void *cookie, Arena *names, SafeTensor *t),
                          void *cookie);
void safetensors_close(SafeFile *f);
FREED_BY_POINTER(SafeFile, safetensors_close)
int safetensors_count(const SafeFile *f);
const SafeTensor *safetensors_at(const SafeFile *f, int index);
const SafeTensor *safetensors_find(const SafeFile *f, const char *name); /* NULL */
/* Whether the name of some tensor begins with prefix. */
bool safetensors_has(const SafeFile *f, const char *prefix);
/* From here on safetensors_find() looks for NAME under prefix + NAME; a text that outlives f. */
void safetensors_set_prefix(SafeFile *f, const char *prefix);
const char *safetensors_metadata(const SafeFile *f, const char *key); /* NULL */
#endif
