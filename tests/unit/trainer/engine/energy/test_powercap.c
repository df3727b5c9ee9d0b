/* test_powercap.c - made-up trees of the kernel's energy counters: which zones count, counters that
 * go round, files that cannot be read. */
#include "base/fs.h"
#include "tests/test.h"
#include "trainer/engine/energy/powercap.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_file(const char *zone, const char *file, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", test_scratch(), zone);
    REQUIRE_OK(fs_make_dirs(path));
    snprintf(path, sizeof path, "%s/%s/%s", test_scratch(), zone, file);
    REQUIRE_OK(fs_write_atomic(path, text, strlen(text)));
}

static void write_zone(const char *zone, const char *name, const char *energy)
{
    write_file(zone, "name", name);
    write_file(zone, "max_energy_range_uj", "262143328850\n");
    write_file(zone, "energy_uj", energy);
}

static double joules_of(Powercap *p)
{
    double joules = -1;
    CHECK_OK(powercap_read(p, &joules));
    return joules;
}

TEST(packages_and_their_dram_count_once)
{
    Powercap *p = NULL;
    write_file("intel-rapl", "enabled", "1\n"); /* the type of the zones, none itself */
    write_zone("intel-rapl:0", "package-0\n", "1000000\n");
    write_zone("intel-rapl:0:0", "core\n", "5000000\n");
    write_zone("intel-rapl:0:1", "dram\n", "2000000\n");
    write_zone("intel-rapl:1", "package-1-die-0\n", "3000000\n");
    write_zone("intel-rapl:2", "psys\n", "9000000\n");
    write_zone("intel-rapl-mmio:0", "package-0\n", "1000000\n");
    REQUIRE_OK(powercap_open(&p, test_scratch()));
    REQUIRE(p != NULL);
    CHECK_INT(powercap_packages(p), 2);
    CHECK_NEAR(joules_of(p), 0, 0);
    write_zone("intel-rapl:0", "package-0\n", "11000000\n");
    write_zone("intel-rapl:0:0", "core\n", "6000000\n");
    write_zone("intel-rapl:0:1", "dram\n", "2500000\n");
    write_zone("intel-rapl:1", "package-1-die-0\n", "3250000\n");
    write_zone("intel-rapl:2", "psys\n", "99000000\n");
    write_zone("intel-rapl-mmio:0", "package-0\n", "11000000\n");
    CHECK_NEAR(joules_of(p), 10.75, 1e-9);
    powercap_close(p);
}

TEST(a_counter_goes_round)
{
    Powercap *p = NULL;
    write_zone("intel-rapl:0", "package-0\n", "262143328000\n");
    REQUIRE_OK(powercap_open(&p, test_scratch()));
    write_zone("intel-rapl:0", "package-0\n", "149\n"); /* 262143328850 and 0 are between */
    CHECK_NEAR(joules_of(p), 1e-3, 1e-9);
    write_zone("intel-rapl:0", "package-0\n", "1000149\n");
    CHECK_NEAR(joules_of(p), 1.001, 1e-9);
    powercap_close(p);
}

TEST(no_counter_is_no_error)
{
    char nowhere[600];
    Powercap *p = NULL;
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", test_scratch());
    CHECK_OK(powercap_open(&p, nowhere));
    CHECK(p == NULL);
    CHECK_OK(powercap_open(&p, test_scratch()));
    CHECK(p == NULL);
}

TEST(what_cannot_be_read_is_named)
{
    char path[1024];
    double joules = 0;
    Powercap *p = NULL;
    write_zone("intel-rapl:0", "package-0\n", "1000000\n");
    write_zone("intel-rapl:1", "package-1\n", "1000000\n");
    REQUIRE_OK(powercap_open(&p, test_scratch()));
    write_zone("intel-rapl:1", "package-1\n", "3000000\n");
    snprintf(path, sizeof path, "%s/intel-rapl:0/energy_uj", test_scratch());
    CHECK(unlink(path) == 0);
    CHECK_STATUS(powercap_read(p, &joules), ERR_ENV);
    CHECK_CONTAINS(status_message(), "intel-rapl:0/energy_uj: No such file");
    CHECK_NEAR(joules, 2, 1e-9); /* of the other one */
    powercap_close(p);
    CHECK_STATUS(powercap_open(&p, test_scratch()), ERR_ENV);
    CHECK(p == NULL);
    write_zone("intel-rapl:0", "package-0\n", "-1\n");
    CHECK_STATUS(powercap_open(&p, test_scratch()), ERR_ENV);
    CHECK_CONTAINS(status_message(), "energy_uj: \"-1\" is not a count");
    if (geteuid() == 0) return; /* who may read everything */
    CHECK(chmod(path, 0) == 0);
    CHECK_STATUS(powercap_open(&p, test_scratch()), ERR_ENV);
    CHECK_CONTAINS(status_message(), "Permission denied");
}
