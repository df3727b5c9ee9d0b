/* cudnn_there.h - for tests that ask cuDNN about devices which are only described. */
#ifndef CONVOY_TESTS_TOOLS_CUDNN_THERE_H
#define CONVOY_TESTS_TOOLS_CUDNN_THERE_H
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"

/* Where there is none: the test is skipped with the reason, and the caller returns. */
bool cudnn_is_there(void);
/* A description from configs/gpus; capability ("750") in place of its own, unless NULL. NULL if it
 * cannot be read. mem_free. */
char *cudnn_description(const char *gpu, const char *capability);
/* A backend of which nothing but the context is there, for a device so described; a limit of 256 MB
 * of workspace. cudnn_context_destroy(b->cudnn). */
Status cudnn_open_described(CudaBackend *b, const char *gpu, const char *capability,
                            const char *cache);
#endif
