/* powercap.h - what the processors of this host have used: the kernel's energy counters (RAPL), as
 * /sys/class/powercap has them.
 *
 * Counted are the zones intel-rapl:* (AMD's are named so too) that are a package, and the dram of
 * one, which no package holds. core and uncore are parts of their package, psys holds packages, and
 * intel-rapl-mmio:* are the same packages once more. Since Linux 5.10 root alone may read them. */
#ifndef CONVOY_TRAINER_ENGINE_ENERGY_POWERCAP_H
#define CONVOY_TRAINER_ENGINE_ENERGY_POWERCAP_H
#include "base/status.h"

#define POWERCAP_DIR "/sys/class/powercap"

typedef struct Powercap Powercap;
/* dir: a folder like that one. *out NULL and OK: it has no such zone, as in most virtual machines.
 * ERR_ENV: it has, and the file that is named cannot be read. */
Status powercap_open(Powercap **out, const char *dir);
void powercap_close(Powercap *p); /* NULL ok */
int powercap_packages(const Powercap *p);
/* Joules of all zones since powercap_open(); *joules grows only. Counters go round (after 12 s at
 * worst: 2^32 uJ at 350 W), so it is called every few seconds. ERR_ENV: one cannot be read any
 * more; *joules is what the others tell. */
Status powercap_read(Powercap *p, double *joules);
#endif
