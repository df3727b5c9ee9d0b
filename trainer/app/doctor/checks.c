/* checks.c - the table of checks. */
#include "trainer/app/doctor/doctor.h"

typedef struct CheckRow {
    const char *name;
    void (*run)(const DoctorOptions *o, DoctorReport *r);
} CheckRow;

static const CheckRow checks[] = {
    { "cpus", doctor_check_cpus },
    { "placement", doctor_check_placement },
    { "limits", doctor_check_limits },
    { "memory", doctor_check_memory },
    { "shm", doctor_check_shm },
    { "data", doctor_check_data },
    { "clocks", doctor_check_clocks },
    { "network", doctor_check_network },
    { "fabric", doctor_check_fabric },
    { "gpus", doctor_check_gpus },
    { "energy", doctor_check_energy },
    { "variables", doctor_check_variables },
    { "libraries", doctor_check_libraries },
};

void doctor_run(const DoctorOptions *o, DoctorReport *out)
{
    out->count = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        out->check = checks[i].name;
        checks[i].run(o, out);
    }
}
