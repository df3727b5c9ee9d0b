/* checks_net.c - network interfaces and the adapters of fast fabrics: EFA, InfiniBand. */
#include "base/mem.h"
#include "trainer/app/doctor/doctor.h"
#include <stdio.h>
#include <string.h>

#define MTU_JUMBO    9000
#define SPEED_FAST   10000 /* Mbit/s */
#define AMAZON       0x1d0f
#define VERBS_FOLDER "/dev/infiniband"

static void check_interface(const DoctorOptions *o, DoctorReport *r, const char *name, int *up)
{
    char path[512], state[32];
    int64_t mtu = 0, speed = -1;
    snprintf(path, sizeof path, "/sys/class/net/%s/operstate", name);
    if (!doctor_read(o, path, state, sizeof state) || strcmp(state, "up") != 0) return;
    snprintf(path, sizeof path, "/sys/class/net/%s/mtu", name);
    if (!doctor_read_number(o, path, &mtu)) return;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
    if (!doctor_read_number(o, path, &speed)) speed = -1;
    (*up)++;
    bool small = mtu < MTU_JUMBO && speed >= SPEED_FAST;
    char rate[48] = "";
    if (speed > 0) snprintf(rate, sizeof rate, ", %lld Mbit/s", (long long)speed);
    DOCTOR_JUDGE(r, small, VERDICT_WARN,
                 "ip link set dev INTERFACE mtu 9001 on all hosts (AWS allows it within a VPC): "
                 "fewer, larger packets",
                 "%s is up, MTU %lld%s", name, (long long)mtu, rate);
}

void doctor_check_network(const DoctorOptions *o, DoctorReport *r)
{
    char **names FREED = NULL;
    int64_t count = doctor_list(o, "/sys/class/net", &names);
    int up = 0;
    for (int64_t i = 0; i < count; i++)
        if (strcmp(names[i], "lo") != 0) check_interface(o, r, names[i], &up);
    if (up == 0)
        doctor_find(r, VERDICT_OK, "",
                    "no network interface is up but loopback: runs on this host only");
}

/* ---- fabrics ---- */

static bool is_efa(const DoctorOptions *o, const char *name)
{
    char path[512], text[32];
    unsigned vendor = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/vendor", name);
    return doctor_read(o, path, text, sizeof text) && sscanf(text, "0x%x", &vendor) == 1 &&
           vendor == AMAZON;
}

static void check_port(const DoctorOptions *o, DoctorReport *r, const char *name)
{
    char path[512], state[64];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/state", name);
    if (!doctor_read(o, path, state, sizeof state)) return;
    bool active = strstr(state, "ACTIVE") != NULL;
    DOCTOR_JUDGE(r, !active, VERDICT_FAIL, "check the cable and the subnet manager (ibstat)",
                 "%s: port state %s", name, state);
}

static bool plugin_exists(const DoctorOptions *o)
{
    static const char *const files[] = {
        "/opt/amazon/ofi-nccl/lib/libnccl-net.so",
        "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so",
        "/opt/amazon/ofi-nccl/lib64/libnccl-net.so",
        "/opt/aws-ofi-nccl/lib/libnccl-net.so",
    };
    char byte[2];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (doctor_read(o, files[i], byte, sizeof byte)) return true;
    return false;
}

static void check_efa(const DoctorOptions *o, DoctorReport *r, int64_t count, bool verbs)
{
    if (o->efa >= 0 && count < o->efa)
        doctor_find(r, VERDICT_FAIL,
                    "enable EFA for the instance and its security group; in Kubernetes request "
                    "vpc.amazonaws.com/efa",
                    "%lld EFA adapters, %lld expected", (long long)count, (long long)o->efa);
    if (count == 0) return;
    if (o->efa < 0 || count >= o->efa)
        doctor_find(r, VERDICT_OK, "", "%lld EFA adapters", (long long)count);
    if (!verbs)
        doctor_find(r, VERDICT_FAIL,
                    "docker run --device=/dev/infiniband, or the EFA device plugin of Kubernetes",
                    "%s is missing: the adapters cannot be opened here", VERBS_FOLDER);
    if (plugin_exists(o))
        doctor_find(r, VERDICT_OK, "", "NCCL's plugin for EFA (aws-ofi-nccl) is installed");
    else
        doctor_find(r, VERDICT_WARN,
                    "install aws-ofi-nccl (the EFA installer has it): without it NCCL uses TCP",
                    "NCCL's plugin for EFA is not under /opt/amazon/ofi-nccl");
}

void doctor_check_fabric(const DoctorOptions *o, DoctorReport *r)
{
    char **names FREED = NULL, **devices FREED = NULL;
    int64_t count = doctor_list(o, "/sys/class/infiniband", &names), efa = 0;
    bool verbs = doctor_list(o, VERBS_FOLDER, &devices) > 0;
    for (int64_t i = 0; i < count; i++) {
        if (is_efa(o, names[i])) efa++;
        else check_port(o, r, names[i]);
    }
    if (count == 0 && o->efa <= 0)
        doctor_find(r, VERDICT_OK, "", "no EFA or InfiniBand adapter: hosts communicate over TCP");
    check_efa(o, r, efa, verbs);
}
