/* cuda_there.h - for tests that need a CUDA device, or its test double. */
#ifndef CONVOY_TESTS_TOOLS_CUDA_THERE_H
#define CONVOY_TESTS_TOOLS_CUDA_THERE_H
#include <stdbool.h>

/* Where there is none: the test is skipped with the reason, and the caller returns. */
bool cuda_is_there(void);
#endif
