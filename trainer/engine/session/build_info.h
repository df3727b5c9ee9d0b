/* build_info.h - what this build is made of and what it has found: convoy --version. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_BUILD_INFO_H
#define CONVOY_TRAINER_ENGINE_SESSION_BUILD_INFO_H
#include "base/str.h"

const char *build_info_kind(void);     /* "with CUDA": the same on all ranks of a run */
void build_info_describe(StrBuf *out); /* lines: convoy, backends, devices, MPI, libraries */
#endif
