/* tar_scan.h - what one tar file holds: its members, images with their checksums and labels with
 * their numbers; links are followed. What they mean together is known when all files of a set were
 * read (source_webdataset.c). */
#ifndef CONVOY_DATA_SOURCE_TAR_SCAN_H
#define CONVOY_DATA_SOURCE_TAR_SCAN_H
#include "base/arena.h"
#include "data/source/tar.h"

typedef enum TarPart { TAR_REST, TAR_IMAGE, TAR_LABEL } TarPart; /* by the ending of its name */

typedef struct TarItem {
    const char *path, *link; /* path from the top of the archive; link as in TarMember */
    uint64_t offset, bytes;  /* of a link that of the file, as is the rest */
    uint32_t crc, label;     /* of an image, of a label */
    TarKind kind;
    TarPart part;
    size_t key_bytes; /* of the path up to the first dot of its last part; 0: it is of no sample */
    bool whole;       /* what follows the first dot of its name is all of its ending */
    bool hidden;   /* a part of its path begins with a dot: passed over, but links may lead there */
    bool replaced; /* a later member has its path, which is what unpacking leaves */
} TarItem;

typedef struct TarScan { /* zero-initialise */
    TarItem *items;      /* [count] as they lie in the file */
    size_t count, capacity;
    bool has_labels;       /* some .cls is there, whosever */
    bool has_top;          /* the top of the archive is a member, "./" */
    const char *lost_link; /* to a folder, or out of the archive: a sentence; NULL: none */
    Arena *arena;          /* of the text */
} TarScan;

/* ERR_DATA with the reason, not naming the file. */
Status tar_scan_read(TarScan *out, ByteStream *s);
void tar_scan_free(TarScan *t);
/* Order of paths in which all that lies below a folder follows it. */
int tar_scan_compare(const char *a, const char *b);
#endif
