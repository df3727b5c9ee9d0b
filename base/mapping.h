/* mapping.h - files mapped into memory, which others may cut short or their disk may lose.
 *
 * Touching a page that is no longer in the file would end the process with SIGBUS. Instead the
 * whole mapping becomes zeros, for this process alone. Whoever maps a file keeps something in it
 * that is never zero, looks at it, and says in its own words what happened to which file.
 *
 * Every mapping of a file is made here (make lint). What is read once is better read than
 * mapped. */
#ifndef CONVOY_BASE_MAPPING_H
#define CONVOY_BASE_MAPPING_H
#include <stdbool.h>
#include <stddef.h>

/* The first bytes of a file. shared: to write to as well, together with others who map it. NULL
 * with errno set. */
void *mapping_open(int fd, size_t bytes, bool shared);
void mapping_close(void *mapping, size_t bytes); /* NULL ok */
#endif
