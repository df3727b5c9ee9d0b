/* tar.h - the members of a tar file, one after another: ustar, with the path, link and size records
 * of pax and the long names of GNU tar. */
#ifndef CONVOY_DATA_SOURCE_TAR_H
#define CONVOY_DATA_SOURCE_TAR_H
#include "base/str.h"
#include "data/source/byte_stream.h"
#include <stdbool.h>

typedef struct TarReader { /* zero-initialise but for stream */
    ByteStream *stream;    /* borrowed */
    uint64_t left;         /* bytes of the member's content and padding not read yet */
    uint64_t padding;      /* how many of them are padding */
    StrBuf path, link;     /* of the member */
    StrBuf next_path;      /* from a pax or GNU record, for the member that follows */
    StrBuf next_link;
    StrBuf record;
    uint64_t next_size;
    bool has_next_size, next_sparse;
} TarReader;

typedef enum TarKind {
    TAR_OTHER, /* a device, a pipe, ... */
    TAR_FILE,
    TAR_SPARSE, /* a file of which parts are left out */
    TAR_FOLDER,
    TAR_HARD_LINK, /* to the member of that path */
    TAR_SYMLINK
} TarKind;

typedef struct TarMember {
    const char *path; /* borrowed until the next call, as is link */
    const char *link; /* where a link leads to, as it is written; "" for others */
    uint64_t offset;  /* of its content in the file */
    uint64_t bytes;
    TarKind kind; /* a file alone has content that is its own */
} TarMember;

/* The next member, skipping what was not read of the one before. *more is false at the end of the
 * archive. ERR_DATA with the reason and the offset, not naming the file. */
Status tar_next(TarReader *t, TarMember *m, bool *more);
/* Content of the member, from front to back: exactly bytes of it, which must be there. */
Status tar_read(TarReader *t, void *out, size_t bytes);
/* Goes back to a file that was a member, for tar_read. */
void tar_return(TarReader *t, uint64_t offset, uint64_t bytes);
void tar_free(TarReader *t);
/* Adds path as it is from the top of the archive, without . and .., and a NUL. folder: where it
 * starts, such a path itself, of which that many bytes count. False: it leads above the top. */
bool tar_clean_path(StrBuf *out, const char *folder, size_t folder_bytes, const char *path);
#endif
