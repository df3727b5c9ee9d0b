/* packed_scan.h - the scan of containers: which files there are, each read once by one of several
 * threads, and the index of what was found. The kinds differ in what they find in a file. */
#ifndef CONVOY_DATA_SOURCE_PACKED_SCAN_H
#define CONVOY_DATA_SOURCE_PACKED_SCAN_H
#include "data/index/index_piece.h"
#include "data/index/scan.h"
#include "data/source/byte_stream.h"
#include "data/source/packed_files.h"

#define PACKED_SCAN_MAX_CLASSES 1000000

typedef struct PackedScan {
    PackedFiles files;
    IndexPiece *pieces; /* [files] */
    void **found;       /* [files] zeroed memory for what else the kind wants to know of each */
    size_t found_bytes; /* of one */
    /* Adds the samples of a container to its piece. Errors need not name the file. */
    Status (*read)(struct PackedScan *scan, int64_t file, ByteStream *s);
} PackedScan;

/* Lists the containers at o->path and reads them all. scan: read and found_bytes filled in, the
 * rest zero. what: the containers in words, for the error where there are none. */
Status packed_scan_run(PackedScan *scan, const ScanOptions *o, bool (*is_one)(const char *name),
                       const char *what);
int packed_scan_classes(const PackedScan *scan); /* the highest label and one */
Status packed_scan_build(Index **out, const PackedScan *scan, const ScanOptions *o,
                         const char *const *names, int classes, bool named);
/* of what found holds only the memory itself */
void packed_scan_free(PackedScan *scan);
#endif
