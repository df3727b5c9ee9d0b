/* announce.h - what a session's programs are made of, for its first log lines. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_ANNOUNCE_H
#define CONVOY_TRAINER_ENGINE_SESSION_ANNOUNCE_H
#include "trainer/engine/session/session.h"

/* Says how evaluation sees images, what was fused and which implementations were chosen. */
void announce_programs(const Session *s);
/* Adds "conv2d 17 jit:avx2, 3 winograd 4x4; conv2d_bwd_data ...": how many of p's convolutions and
 * products each implementation computes. */
void announce_implementations(const Program *p, StrBuf *out);
#endif
