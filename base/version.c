/* version.c - see version.h. The one file that is compiled again when the commit changes. */
#include "base/version.h"

#ifndef CONVOY_COMMIT
#define CONVOY_COMMIT ""
#endif

const char *version_text(void)
{
    return sizeof CONVOY_COMMIT > 1 ? CONVOY_VERSION "+" CONVOY_COMMIT : CONVOY_VERSION;
}
