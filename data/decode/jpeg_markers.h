/* jpeg_markers.h - what the markers of a JPEG file tell without decoding. */
#ifndef CONVOY_DATA_DECODE_JPEG_MARKERS_H
#define CONVOY_DATA_DECODE_JPEG_MARKERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool jpeg_markers_is_frame(int code); /* of a frame header, SOF0 to SOF15 */

/* Is the frame of a lossless kind (SOF3, 7, 11, 15)? */
bool jpeg_markers_lossless(const uint8_t *file, size_t bytes);

/* Is the first marker behind a scan header, but for restart markers, the end of the image? Then the
 * library decodes the scan and all that it reads after it without an error, whatever the codes are.
 * Reads a file of usual size in a few microseconds. */
bool jpeg_markers_end_follows(const uint8_t *scan, size_t bytes);
#endif
