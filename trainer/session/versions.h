/* versions.h - what this build is made of and what it has found: convoy --version. */
#ifndef CONVOY_TRAINER_VERSIONS_H
#define CONVOY_TRAINER_VERSIONS_H
#include "base/str.h"

void versions_describe(StrBuf *out); /* lines: convoy, backends, devices, MPI, libraries */
#endif
