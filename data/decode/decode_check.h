/* decode_check.h - whether our Huffman decoder may be used with the libjpeg that is loaded. */
#ifndef CONVOY_DATA_DECODE_DECODE_CHECK_H
#define CONVOY_DATA_DECODE_DECODE_CHECK_H
#include "base/status.h"
#include <stdbool.h>

/* Do the two ways to decode agree in this process? Found out once, then remembered. ERR_MEMORY. */
Status decode_check_fast(bool *sound);
#endif
