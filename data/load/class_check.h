/* class_check.h - what must hold of the classes of a set that was just opened. */
#ifndef CONVOY_DATA_LOAD_CLASS_CHECK_H
#define CONVOY_DATA_LOAD_CLASS_CHECK_H
#include "data/source/source.h"

/* Lists of names, in checkpoints too, have one a line; and they are kept as JSON. ERR_DATA naming
 * path. */
Status class_check_names(const Source *s, const char *path);
/* For a set whose labels cannot be changed, where they are to be places in a list: ERR_DATA unless
 * they are (class_list.h). */
Status class_check_like(const Source *s, const char *path, const ClassList *like);
/* One warning where labels that are numbers alone count from 1, or leave numbers out: classes that
 * nobody may have meant. */
void class_check_tell_empty(const Source *s, const char *path);
#endif
