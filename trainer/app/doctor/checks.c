/* checks.c - the table of checks. */
#include "trainer/app/doctor/doctor.h"

#define ROW(name) { #name, doctor_check_##name },
static const struct {
    const char *name;
    void (*run)(const DoctorOptions *o, DoctorReport *r);
} checks[] = { DOCTOR_CHECKS(ROW) };

void doctor_run(const DoctorOptions *o, DoctorReport *out)
{
    out->count = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        out->check = checks[i].name;
        checks[i].run(o, out);
    }
}
