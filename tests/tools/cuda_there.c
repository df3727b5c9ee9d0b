/* cuda_there.c - see cuda_there.h. */
#include "tests/tools/cuda_there.h"
#include "kernels/backend_cuda.h"
#include "tests/test.h"

bool cuda_is_there(void)
{
    char why[512];
    if (backend_cuda_devices(why, sizeof why) > 0) return true;
    test_skip(why);
    return false;
}
