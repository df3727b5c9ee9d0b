/* checks.h - all checks of a host. */
#ifndef CONVOY_TRAINER_DOCTOR_CHECKS_H
#define CONVOY_TRAINER_DOCTOR_CHECKS_H
#include "trainer/doctor/doctor.h"

void checks_run(const DoctorOptions *o, DoctorReport *out); /* fills *out, of the caller */
#endif
