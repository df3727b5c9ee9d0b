/* view_file.h - one picture by itself, as evaluation would show it. */
#ifndef CONVOY_DATA_LOAD_VIEW_FILE_H
#define CONVOY_DATA_LOAD_VIEW_FILE_H
#include "base/status.h"
#include "data/options.h"

bool view_file_is_picture(const char *path); /* by its ending, as in a dataset */
/* Reads the JPEG or PNG at path and writes the view that evaluation with these options
 * has of it to out, [image_size, image_size, channels]. ERR_DATA naming the file. */
Status view_file_make(const char *path, const ViewOptions *o, uint8_t *out);
#endif
