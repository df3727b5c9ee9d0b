/* tar_scan.h - what one tar file holds: its images, as two readings of the same members see them.
 *
 * Whether a set has labels (.cls) is known when all of its files were read, so both readings are
 * made ready: WebDataset's, by which members with the same path up to the first dot of its last
 * part are a sample; and a tree's, by which each image is one, as in a folder. Links are
 * followed. */
#ifndef CONVOY_DATA_SOURCE_TAR_SCAN_H
#define CONVOY_DATA_SOURCE_TAR_SCAN_H
#include "data/index/left_out.h"
#include "data/source/byte_stream.h"

#define TAR_SCAN_NO_LABEL UINT32_MAX

typedef struct TarImage {
    uint64_t path_at, offset;
    uint32_t bytes, crc;
    uint32_t label;  /* of its sample */
    bool is_samples; /* the image of a sample */
    bool replaced;   /* a later member has its path, which is what unpacking leaves */
} TarImage;

typedef struct TarNote { /* how many, and the first of them */
    int64_t count;
    StrBuf first;
} TarNote;

typedef struct TarScan { /* zero-initialise */
    TarImage *images;
    size_t count;
    StrBuf text;                          /* paths, from the top of the archive */
    StrBuf folders;                       /* those without an image below, each with its NUL */
    bool has_labels;                      /* some .cls is there, whosever */
    TarNote unlabelled, imageless, spare; /* samples without; images of none */
    TarNote twice;                        /* images of a sample that has one of that ending */
    TarNote links;                        /* to folders, or out of the archive: whole sentences */
    LeftOut left;                         /* files that are no images */
} TarScan;

/* ERR_DATA with the reason, not naming the file. */
Status tar_scan_read(TarScan *out, ByteStream *s);
void tar_scan_free(TarScan *t);
#endif
