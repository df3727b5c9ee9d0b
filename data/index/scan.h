/* scan.h - what lies in an ImageFolder tree. */
#ifndef CONVOY_DATA_INDEX_SCAN_H
#define CONVOY_DATA_INDEX_SCAN_H
#include "data/index/index_build.h"

/* Scans the tree as torchvision's ImageFolder does (order, extensions, symlinks: see scan.c).
 * ERR_DATA names the folder at fault. */
Status scan_imagefolder(Index **out, const ScanOptions *o);
#endif
