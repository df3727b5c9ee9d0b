/* test_place.c - which CPUs ranks get, on machines that hwloc makes up and on described ones. */
#include "base/fs.h"
#include "tests/test.h"
#include "tests/tools/topology_xml.h"
#include "trainer/engine/place/place_plan.h"
#include "trainer/engine/place/topology.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 16, LIST_BYTES = 256 };

static hwloc_topology_t synthetic(const char *text)
{
    hwloc_topology_t t = NULL;
    CHECK(hwloc_topology_init(&t) == 0 && hwloc_topology_set_synthetic(t, text) == 0 &&
          hwloc_topology_load(t) == 0);
    return t;
}

/* By way of a file, as doctor --topology reads it. */
static hwloc_topology_t described(MachineShape shape)
{
    char path[] = "/tmp/convoy-topology-XXXXXX";
    hwloc_topology_t t = NULL;
    StrBuf text = { 0 };
    int fd = mkstemp(path);
    topology_xml(&shape, &text);
    CHECK(fd >= 0 && !text.failed && write(fd, text.text, text.length) == (ssize_t)text.length);
    CHECK_OK(topology_open(&t, path));
    close(fd);
    unlink(path);
    str_free(&text);
    return t;
}

/* The plan of so many ranks, rank i with GPU i where there are GPUs; out: "0-3;4-7". cgroup: the
 * CPUs that there are, NULL: all. */
static void plan(hwloc_topology_t t, int ranks, const char *cgroup, StrBuf *out)
{
    hwloc_const_cpuset_t near[RANKS_MAX] = { NULL };
    hwloc_cpuset_t sets[RANKS_MAX];
    hwloc_obj_t gpus[RANKS_MAX];
    hwloc_bitmap_t allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t));
    int count = topology_gpus(t, gpus, RANKS_MAX);
    if (cgroup) hwloc_bitmap_list_sscanf(allowed, cgroup);
    for (int i = 0; i < ranks; i++) {
        sets[i] = hwloc_bitmap_alloc();
        if (i < count) near[i] = topology_near(t, gpus[i]);
    }
    CHECK_OK(place_plan(t, allowed, near, ranks, sets));
    for (int i = 0; i < ranks; i++) {
        char list[LIST_BYTES];
        CHECK(hwloc_bitmap_isincluded(sets[i], allowed) && !hwloc_bitmap_iszero(sets[i]));
        hwloc_bitmap_list_snprintf(list, sizeof list, sets[i]);
        str_printf(out, "%s%s", i ? ";" : "", list);
        for (int j = 0; j < i; j++) /* nobody has a part of another's */
            CHECK(hwloc_bitmap_isequal(sets[i], sets[j]) ||
                  !hwloc_bitmap_intersects(sets[i], sets[j]));
    }
    for (int i = 0; i < ranks; i++) hwloc_bitmap_free(sets[i]);
    hwloc_bitmap_free(allowed);
}

static void check_plan(hwloc_topology_t t, int ranks, const char *cgroup, const char *wanted)
{
    StrBuf got = { 0 };
    plan(t, ranks, cgroup, &got);
    CHECK_STR(got.text, wanted);
    str_free(&got);
}

TEST(ranks_without_gpus_take_equal_runs_of_cores)
{
    hwloc_topology_t t = synthetic("pack:2 [numa] core:4 pu:2");
    check_plan(t, 1, NULL, "0-15");
    check_plan(t, 2, NULL, "0-7;8-15");
    check_plan(t, 4, NULL, "0-3;4-7;8-11;12-15");
    check_plan(t, 3, NULL, "0-5;6-11;12-15");
    topology_close(t);
    t = synthetic("pack:2 [numa] pu:2"); /* no cores: threads */
    check_plan(t, 4, NULL, "0;1;2;3");
    topology_close(t);
}

TEST(fewer_cores_than_ranks_are_shared)
{
    hwloc_topology_t t = synthetic("pack:2 [numa] core:1 pu:1");
    check_plan(t, 3, NULL, "0-1;0-1;0-1");
    topology_close(t);
}

TEST(two_sockets_and_eight_gpus)
{
    hwloc_topology_t t = described((MachineShape){ 2, 1, 8, 4, 0 });
    check_plan(t, 8, NULL,
               "0-1,16-17;2-3,18-19;4-5,20-21;6-7,22-23;"
               "8-9,24-25;10-11,26-27;12-13,28-29;14-15,30-31");
    /* four GPUs of one socket: few cores there, so that the other's help */
    check_plan(t, 4, NULL,
               "0-1,8-9,16-17,24-25;2-3,10-11,18-19,26-27;"
               "4-5,12-13,20-21,28-29;6-7,14-15,22-23,30-31");
    topology_close(t);
}

/* GPUs 0, 2 beside node 0 and 1, 3 beside node 1 of a package. */
TEST(nodes_within_a_socket)
{
    hwloc_topology_t t = described((MachineShape){ 2, 2, 4, 2, 0 });
    check_plan(t, 4, NULL, "0-3,16-19;4-7,20-23;8-11,24-27;12-15,28-31");
    topology_close(t);
    t = described((MachineShape){ 1, 2, 4, 1, 0 }); /* the node without a GPU is not left idle */
    check_plan(t, 1, NULL, "0-15");
    topology_close(t);
    t = described((MachineShape){ 1, 4, 4, 2, 0 });
    check_plan(t, 2, NULL, "0-3,8-11,16-19,24-27;4-7,12-15,20-23,28-31");
    topology_close(t);
}

/* GPUs on the first socket only: the second helps where the first is short of cores. */
TEST(a_socket_without_gpus)
{
    hwloc_topology_t t = described((MachineShape){ 2, 1, 16, 1, 1 });
    check_plan(t, 1, NULL, "0-15,32-47");
    topology_close(t);
    t = described((MachineShape){ 2, 1, 8, 2, 1 });
    check_plan(t, 2, NULL, "0-3,8-11,16-19,24-27;4-7,12-15,20-23,28-31");
    topology_close(t);
}

TEST(what_a_cgroup_keeps_is_not_given)
{
    hwloc_topology_t t = described((MachineShape){ 2, 1, 8, 2, 0 });
    check_plan(t, 4, "0-3,8-15,16-19", "0-1,16-17;2-3,18-19;8-11;12-15");
    check_plan(t, 4, "0-7", "0-1;2-3;4-5;6-7"); /* nothing near two of the GPUs */
    check_plan(t, 2, "0,16", "0,16;0,16");
    topology_close(t);
}

/* Every number of ranks on every part of a machine: none is empty, all are apart (plan). */
TEST(any_ranks_on_any_part)
{
    hwloc_topology_t t = described((MachineShape){ 2, 2, 3, 3, 0 });
    for (int ranks = 1; ranks <= 13; ranks++) {
        for (int last = 0; last < 24; last += 5) {
            char part[16];
            StrBuf text = { 0 };
            snprintf(part, sizeof part, "0-%d", last);
            plan(t, ranks, part, &text);
            str_free(&text);
        }
    }
    topology_close(t);
}

TEST(adapters_beside_a_gpu)
{
    char text[LIST_BYTES];
    hwloc_obj_t gpus[RANKS_MAX];
    hwloc_topology_t t = described((MachineShape){ 2, 1, 2, 2, 0 });
    REQUIRE(topology_gpus(t, gpus, RANKS_MAX) == 4);
    CHECK(topology_gpu(t, "0000:12:00.0") == gpus[1] && !topology_gpu(t, "0000:77:00.0"));
    CHECK(!topology_gpu(t, "emulated 0"));
    topology_adapters(t, gpus[2], text, sizeof text);
    CHECK_STR(text, "mlx5_2");
    CHECK_INT(topology_nodes(t, topology_near(t, gpus[3]), text, sizeof text), 1);
    CHECK_STR(text, "1");
    topology_close(t);
}

TEST(files_that_are_no_topology)
{
    char path[] = "/tmp/convoy-topology-XXXXXX";
    hwloc_topology_t t = NULL;
    int fd = mkstemp(path);
    CHECK(write(fd, "<topology", 9) == 9);
    close(fd);
    CHECK_INT(topology_open(&t, path), ERR_DATA);
    CHECK(strstr(status_message(), path) && !t);
    unlink(path);
    CHECK_INT(topology_open(&t, path), ERR_IO);
}
