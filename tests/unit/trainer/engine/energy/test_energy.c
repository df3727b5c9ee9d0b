/* test_energy.c - joules by a fake NVML (tests/fake_nvml) and by assumption; what they cost. */
#include "base/clock.h"
#include "base/fs.h"
#include "tests/test.h"
#include "trainer/engine/energy/energy.h"
#include "trainer/engine/energy/nvml.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_GPU "GPU-00000000-0000-0000-0000-00000000000"

typedef struct Room {
    Config *config;
    Comm *comm;
    Nvml *fake; /* once it is there, it is taken for the driver's */
    Energy *energy;
} Room;

static void set_up(Room *r, const char *watts)
{
    const char *const sets[] = { "cost.powercap=", watts };
    *r = (Room){ 0 };
    REQUIRE_OK(nvml_open(&r->fake, CONVOY_FAKE_NVML));
    REQUIRE_OK(comm_self_create(&r->comm));
    REQUIRE_OK(config_load(&r->config, NULL, sets, 2));
    REQUIRE_OK(energy_open(&r->energy, r->config, r->comm));
}

static void tear_down(Room *r)
{
    energy_close(r->energy);
    config_destroy(r->config);
    comm_destroy(r->comm);
    nvml_close(r->fake);
}

static void count(const char *millijoules)
{
    char path[600];
    snprintf(path, sizeof path, "%s/mj", test_scratch());
    REQUIRE_OK(fs_write_atomic(path, millijoules, strlen(millijoules)));
    setenv("FAKE_NVML_MJ", path, 1);
}

TEST(a_gpu_counts_its_joules)
{
    Room r;
    EnergyCover cover;
    Spent s;
    char text[ENERGY_TEXT_BYTES];
    count("5000000");
    set_up(&r, "cost.host_watts=0");
    REQUIRE_OK(energy_add_gpus(r.energy, r.comm, FAKE_GPU "0", &cover));
    energy_describe(&cover, text);
    CHECK_STR(text, "1 of 1 GPUs by NVML's counter");
    count("5250000");
    energy_read(r.energy, &s);
    CHECK_NEAR(s.gpu_j, 250, 1e-9);
    CHECK(s.cpu_j == 0 && s.assumed_j == 0 && s.host_s > 0);
    count("1000"); /* the driver was loaded again */
    energy_read(r.energy, &s);
    CHECK_NEAR(s.gpu_j, 251, 1e-9);
    count("3000");
    energy_read(r.energy, &s);
    CHECK_NEAR(s.gpu_j, 253, 1e-9);
    tear_down(&r);
    unsetenv("FAKE_NVML_MJ");
}

TEST(power_is_summed_up_where_nothing_counts)
{
    Room r;
    EnergyCover cover;
    Spent first, s;
    char text[ENERGY_TEXT_BYTES];
    set_up(&r, "cost.host_watts=50");
    REQUIRE_OK(energy_add_gpus(r.energy, r.comm, FAKE_GPU "1", &cover));
    energy_describe(&cover, text);
    CHECK_STR(text,
              "1 of 1 GPUs by integrated power, 1 of 1 hosts by the estimate in cost.host_watts");
    energy_read(r.energy, &first);
    clock_sleep_s(0.05);
    energy_read(r.energy, &s);
    CHECK_NEAR((s.gpu_j - first.gpu_j) / (s.host_s - first.host_s), 313.5, 5);
    CHECK_NEAR(s.assumed_j, 50 * s.host_s, 1e-9);
    tear_down(&r);
}

TEST(a_gpu_that_nvml_does_not_know_is_told)
{
    Room r;
    EnergyCover cover;
    Spent s;
    char text[ENERGY_TEXT_BYTES];
    set_up(&r, "cost.host_watts=50");
    REQUIRE_OK(energy_add_gpus(r.energy, r.comm, "MIG-7", &cover));
    energy_describe(&cover, text);
    CHECK_STR(text, "1 of 1 hosts by the estimate in cost.host_watts, 1 GPUs not measured");
    energy_read(r.energy, &s);
    CHECK(s.gpu_j == 0);
    tear_down(&r);
    energy_read(NULL, &s);
    CHECK(s.host_s == 0);
}

/* ---- cost ---- */

TEST(costs_are_by_the_prices_that_are_given)
{
    const char *const sets[] = { "cost.price_per_host_hour=30", "cost.price_per_kwh=0.5",
                                 "cost.pue=1.2", "cost.currency=EUR", "cost.price_note=a b" };
    Config *free_of_charge = NULL, *c = NULL;
    StrBuf text = { 0 };
    const SpentParts p = {
        .part = { [COST_TRAIN] = { 5400, 3.6e6, 1.8e6, 0 }, [COST_WAIT] = { 1800, 0, 0, 1.8e6 } }
    };
    const Spent sum = cost_sum(&p);
    REQUIRE_OK(config_load(&free_of_charge, NULL, NULL, 0));
    REQUIRE_OK(config_load(&c, NULL, sets, 5));
    CHECK_NEAR(sum.host_s, 7200, 0);
    CHECK_NEAR(cost_joules(&sum), 7.2e6, 0);
    CHECK_NEAR(cost_money(c, &sum), 60 + 2 * 1.2 * 0.5, 1e-12);
    CHECK(isnan(cost_money(free_of_charge, &sum)));
    cost_describe(free_of_charge, &p, &text);
    CHECK_STR(text.text, "2 kWh (25 % of it assumed: cost.host_watts 0), 2 host hours, 25.0 % of "
                         "it waiting for data");
    str_clear(&text);
    cost_add_money(c, cost_money(c, &sum), &text);
    CHECK_STR(text.text, ", 61.2 EUR (30 per host hour, 0.5 per kWh, PUE 1.2; a b)");
    str_free(&text);
    config_destroy(free_of_charge);
    config_destroy(c);
}

TEST(sums_come_back_from_a_checkpoint)
{
    StrBuf text = { 0 };
    SpentParts p, back;
    for (int i = 0; i < COST_PARTS; i++) p.part[i] = (Spent){ i + 0.1, 1e7 / (i + 3), 0, 2 };
    cost_write(&p, &text);
    CHECK(cost_read(text.text, &back));
    CHECK(memcmp(&p, &back, sizeof p) == 0);
    static const char *const bad[] = { NULL,
                                       "",
                                       "1 2 3",
                                       "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
                                       "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 -1",
                                       "1 2 3 nan 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!cost_read(bad[i], &back));
        CHECK(back.part[0].host_s == 0 && back.part[COST_PARTS - 1].assumed_j == 0);
    }
    str_free(&text);
}
