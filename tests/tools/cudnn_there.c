/* cudnn_there.c - see cudnn_there.h. Where there is no cuDNN, or plain loops stand for it, nobody
 * asks. */
#include "tests/test.h"
#if CONVOY_CUDA && !defined CONVOY_EMU
#include "base/fs.h"
#include "base/mem.h"
#include "tests/tools/cudnn_there.h"
#include <stdio.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

bool cudnn_is_there(void)
{
    char version[256];
#ifdef __SANITIZE_ADDRESS__
    __lsan_disable(); /* without a device, cuDNN's own use of cuBLASLt leaks */
#endif
    if (cudnn_context_version(version, sizeof version)) return true;
    test_skip(version);
    return false;
}

char *cudnn_description(const char *gpu, const char *capability)
{
    static const char key[] = "\"deviceVer\": ";
    char path[64];
    uint8_t *data = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "configs/gpus/%s.json", gpu);
    if (fs_read_file(path, &data, &bytes) != OK) return NULL;
    char *at = strstr((char *)data, key);
    if (capability && at) memcpy(at + sizeof key - 1, capability, 3);
    return (char *)data;
}

Status cudnn_open_described(CudaBackend *b, const char *gpu, const char *capability,
                            const char *cache)
{
    char *json = cudnn_description(gpu, capability);
    *b = (CudaBackend){ .deviceless = true, .workspace_limit = (size_t)256 << 20 };
    if (!json) return ERR_DATA;
    Status st = cudnn_context_create(&b->cudnn, b, json, cache);
    mem_free(json);
    return st;
}
#endif
