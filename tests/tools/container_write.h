/* container_write.h - puts tar, TFRecord and CIFAR files together for tests, also wrong ones.
 * Everything is appended to a buffer. */
#ifndef CONVOY_TESTS_TOOLS_CONTAINER_WRITE_H
#define CONVOY_TESTS_TOOLS_CONTAINER_WRITE_H
#include "base/str.h"

/* how names over 100 bytes are written; ustar: the folders, of up to 155 bytes, in the prefix */
typedef enum TarNames { TAR_USTAR, TAR_PAX, TAR_GNU } TarNames;
void tar_add(StrBuf *out, const char *path, const void *data, size_t bytes, TarNames names);
/* A pax header with one record, which holds for the next member. */
void tar_add_pax(StrBuf *out, const char *key, const char *value);
/* A header of any type; bytes is what its size field says. */
void tar_add_header(StrBuf *out, const char *path, char type, uint64_t bytes);
/* A link, hard ('1') or symbolic ('2'). */
void tar_add_link(StrBuf *out, const char *path, char type, const char *target, TarNames names);
void tar_end(StrBuf *out);

void tfrecord_add(StrBuf *out, const void *data, size_t bytes);
/* Pieces of a tf.Example: features added one after another, then wrapped. */
void tfexample_add_bytes(StrBuf *features, const char *key, const void *data, size_t bytes);
void tfexample_add_int(StrBuf *features, const char *key, int64_t value, bool packed);
void tfexample_wrap(StrBuf *out, const StrBuf *features);

/* The same ImageFolder tree (absolute path) as a tar with .cls files, as one without, and as
 * TFRecords with synset and file name; spread over so many files in the folder out. */
void container_write_tars(const char *tree, const char *out, int files, bool labels);
void container_write_tfrecords(const char *tree, const char *out, int files);
#endif
