/* doctor.h - looks at a host before a run does: what is missing, slow or set against it.
 *
 * A check is a row of a table (checks.c) and adds one finding or several. Everything is read from
 * /proc, /sys, hwloc and NVML, nothing is changed. Paths begin at a root folder, so that tests can
 * describe hosts that they are not run on. */
#ifndef CONVOY_TRAINER_APP_DOCTOR_DOCTOR_H
#define CONVOY_TRAINER_APP_DOCTOR_DOCTOR_H
#include "base/str.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/energy/nvml.h"
#include "trainer/engine/place/topology.h"

typedef enum Verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL } Verdict;
const char *doctor_verdict_name(Verdict v); /* "ok", "warn", "fail" */

enum { DOCTOR_TEXT_BYTES = 320, DOCTOR_FINDINGS_MAX = 512, DOCTOR_RANKS_MAX = 256 };
typedef struct Finding {
    const char *check; /* name of the row */
    Verdict verdict;
    char text[DOCTOR_TEXT_BYTES];
    char advice[DOCTOR_TEXT_BYTES]; /* "" where there is nothing to do */
} Finding;

typedef struct DoctorOptions {
    const char *root;  /* "" for this host */
    int64_t gpus, efa; /* how many there should be; -1: whatever there is */
    const Nvml *nvml;  /* NULL: none, for this reason: */
    const char *no_nvml;
    /* of this host or of a described one; NULL: not known. How many ranks are to be placed on it;
     * 0: one for each GPU */
    hwloc_topology_t topology;
    bool described; /* topology is another host's on purpose */
    int64_t ranks;
    const char *data; /* folder of a dataset to read from; NULL: none */
    Comm *comm;       /* ranks whose clocks are compared; NULL: none */
} DoctorOptions;

typedef struct DoctorReport {
    const char *check; /* that runs */
    int count;
    Finding finding[DOCTOR_FINDINGS_MAX];
} DoctorReport;

void doctor_run(const DoctorOptions *o, DoctorReport *out); /* fills *out, of the caller */
Verdict doctor_worst(const DoctorReport *r);
void doctor_add_table(const DoctorReport *r, const char *host, StrBuf *out);
void doctor_add_json(const DoctorReport *r, const char *host, StrBuf *out);

/* ---- for the checks ---- */

void doctor_find(DoctorReport *r, Verdict v, const char *advice, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* The same where something is bad, and else that it is well. */
#define DOCTOR_JUDGE(r, bad, v, advice, ...)                                                       \
    doctor_find(r, (bad) ? (v) : VERDICT_OK, (bad) ? (advice) : "", __VA_ARGS__)
/* The first bytes of root + path as text, blanks at its end cut off; false where it cannot be
 * read. */
bool doctor_read(const DoctorOptions *o, const char *path, char *out, size_t bytes);
bool doctor_read_number(const DoctorOptions *o, const char *path, int64_t *out);
/* Names in root + path, sorted; *names is mem_free()d by the caller, NULL where there are none.
 * Returns how many. */
int64_t doctor_list(const DoctorOptions *o, const char *path, char ***names);
/* How many CPUs a list such as "0-3,8" has. */
int64_t doctor_count_cpus(const char *list);
/* Says over how many targets a file is spread, from its attribute lustre.lov; false where that is
 * none that we know. */
bool doctor_lustre_layout(const uint8_t *lov, size_t bytes, StrBuf *out);
/* here was read on this host between before and after of another: narrows [*least, *most], in which
 * the difference of the clocks lies. Seconds. */
void doctor_clock_bound(double before, double here, double after, double *least, double *most);
/* Value of a variable of this process's environment as it was started; false where it is not
 * set. */
bool doctor_environment(const DoctorOptions *o, const char *name, char *out, size_t bytes);

/* In the order of the report. */
#define DOCTOR_CHECKS(CHECK)                                                                       \
    CHECK(cpus)                                                                                    \
    CHECK(placement)                                                                               \
    CHECK(limits)                                                                                  \
    CHECK(memory)                                                                                  \
    CHECK(shm)                                                                                     \
    CHECK(data)                                                                                    \
    CHECK(clocks)                                                                                  \
    CHECK(network)                                                                                 \
    CHECK(fabric)                                                                                  \
    CHECK(gpus)                                                                                    \
    CHECK(energy)                                                                                  \
    CHECK(variables)                                                                               \
    CHECK(libraries)
#define DOCTOR_CHECK(name) void doctor_check_##name(const DoctorOptions *o, DoctorReport *r);
DOCTOR_CHECKS(DOCTOR_CHECK)
#undef DOCTOR_CHECK
#endif
