/* nvToolsExt.h - stands for NVIDIA's header of that name in builds with EMU=1: ranges that a
 * profiler would show. Where CONVOY_EMU_RANGES names a file, each range's way from the outermost
 * is a line of it: "convoy/layer1.0.conv1". */
#ifndef CONVOY_TESTS_EMU_NVTX3_NVTOOLSEXT_H
#define CONVOY_TESTS_EMU_NVTX3_NVTOOLSEXT_H
#ifdef __cplusplus
extern "C" {
#endif
int nvtxRangePushA(const char *message); /* its depth, from 0 */
int nvtxRangePop(void);                  /* the depth of what has ended; negative: nothing has */
#ifdef __cplusplus
}
#endif
#endif
