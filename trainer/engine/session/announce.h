/* announce.h - what a session's programs are made of, for its first log lines. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_ANNOUNCE_H
#define CONVOY_TRAINER_ENGINE_SESSION_ANNOUNCE_H
#include "trainer/engine/session/session.h"

/* Says how evaluation sees images, what was fused and which implementations were chosen. */
void announce_programs(const Session *s);
#endif
