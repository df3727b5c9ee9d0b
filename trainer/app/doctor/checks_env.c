/* checks_env.c - environment variables that hurt, and the libraries that were found. */
#include "base/mem.h"
#include "trainer/app/doctor/doctor.h"
#include "trainer/engine/session/build_info.h"
#include <stdio.h>
#include <string.h>

typedef enum Hurts { ALWAYS, NOT_EMPTY_OR_0, IF_EMPTY, UNLESS_EFA } Hurts;

typedef struct VariableRow {
    const char *name;
    Hurts hurts;
    const char *why, *advice;
} VariableRow;

static const VariableRow variables[] = {
    { "OMP_NUM_THREADS", ALWAYS, "is ignored: device.threads counts a rank's threads", "unset it" },
    { "OMP_PROC_BIND", ALWAYS, "binds the threads of every rank to the same cores", "unset it" },
    { "OMP_PLACES", ALWAYS, "binds the threads of every rank to the same cores", "unset it" },
    { "GOMP_CPU_AFFINITY", ALWAYS, "binds the threads of every rank to the same cores",
      "unset it" },
    { "OMP_WAIT_POLICY", ALWAYS,
      "lets waiting threads take the CPUs of decode threads (active) or be woken late (passive)",
      "unset it" },
    { "ONEDNN_MAX_CPU_ISA", ALWAYS, "prevents the CPU backend from using newer instructions",
      "unset it" },
    { "DNNL_MAX_CPU_ISA", ALWAYS, "prevents the CPU backend from using newer instructions",
      "unset it" },
    { "ONEDNN_VERBOSE", NOT_EMPTY_OR_0, "prints one line per operation", "unset it" },
    { "DNNL_VERBOSE", NOT_EMPTY_OR_0, "prints one line per operation", "unset it" },
    { "LD_PRELOAD", NOT_EMPTY_OR_0, "loads another library into every program",
      "unset it unless you know why" },
    { "CUDA_LAUNCH_BLOCKING", NOT_EMPTY_OR_0, "makes every kernel wait for the previous one",
      "unset it" },
    { "CUDA_VISIBLE_DEVICES", IF_EMPTY, "hides all GPUs", "unset it, or name GPUs" },
    { "CUDA_DEVICE_MAX_CONNECTIONS", ALWAYS,
      "limits concurrency on the GPU: reductions wait for computation", "unset it" },
    { "NCCL_P2P_DISABLE", NOT_EMPTY_OR_0, "prevents GPUs of a host from using NVLink and PCIe",
      "unset it" },
    { "NCCL_SHM_DISABLE", NOT_EMPTY_OR_0, "prevents GPUs of a host from using shared memory",
      "unset it" },
    { "NCCL_IB_DISABLE", NOT_EMPTY_OR_0, "prevents NCCL from using InfiniBand", "unset it" },
    { "NCCL_NET_GDR_LEVEL", ALWAYS, "overrides when NCCL uses GPUDirect RDMA",
      "unset it: NCCL measures" },
    { "NCCL_ALGO", ALWAYS, "pins NCCL's algorithm for all sizes",
      "unset it: NCCL chooses by size" },
    { "NCCL_PROTO", ALWAYS,
      "pins NCCL's protocol for all sizes; LL128 gives wrong sums on some networks", "unset it" },
    { "NCCL_MIN_NRINGS", ALWAYS, "is obsolete and takes thread blocks from the computation",
      "unset it; Convoy's key is comm.max_ctas" },
    { "NCCL_MIN_NCHANNELS", ALWAYS, "takes thread blocks from the computation",
      "unset it; Convoy's key is comm.max_ctas" },
    { "NCCL_TREE_THRESHOLD", ALWAYS, "is obsolete", "unset it" },
    { "NCCL_DEBUG", ALWAYS, "may print a lot on every rank", "set it only while debugging" },
    { "NCCL_NET", UNLESS_EFA, "prevents NCCL from using the fast network if it is Socket",
      "unset it" },
    { "FI_PROVIDER", UNLESS_EFA, "prevents libfabric from using EFA",
      "set it to efa, or unset it" },
    { "FI_OFI_RXR_RX_COPY_UNEXP", ALWAYS, "is obsolete", "unset it" },
    { "FI_OFI_RXR_RX_COPY_OOO", ALWAYS, "is obsolete", "unset it" },
    { "FI_EFA_USE_DEVICE_RDMA", ALWAYS, "is decided by the plugin in current versions",
      "unset it" },
    { "RDMAV_FORK_SAFE", ALWAYS, "makes memory registration slow; Convoy does not need it",
      "unset it" },
    { "HOROVOD_FUSION_THRESHOLD", ALWAYS, "belongs to Horovod",
      "unset it; Convoy's key is comm.bucket_mb" },
    { "HOROVOD_CYCLE_TIME", ALWAYS, "belongs to Horovod",
      "unset it: buckets start as soon as they are complete" },
};

static bool hurts(const VariableRow *row, const char *value)
{
    switch (row->hurts) {
    case ALWAYS:
        return true;
    case NOT_EMPTY_OR_0:
        return value[0] != '\0' && strcmp(value, "0") != 0;
    case IF_EMPTY:
        return value[0] == '\0';
    case UNLESS_EFA:
        return value[0] != '\0' && strcmp(value, "efa") != 0 && strcmp(value, "AWS Libfabric") != 0;
    }
    return false;
}

/* Whether NCCL takes the interface: value is a list of first letters; of whole names behind "="; of
 * what is not to be taken behind "^". Behind a colon is a port, which is not looked at. */
static bool takes(const char *value, const char *name)
{
    const bool but = value[0] == '^', whole = value[but] == '=';
    bool listed = false;
    for (const char *item = value + but + whole; *item;) {
        size_t length = strcspn(item, ",:");
        listed = listed || (length > 0 && strncmp(name, item, length) == 0 &&
                            (!whole || name[length] == '\0'));
        item += strcspn(item, ",");
        item += *item == ',';
    }
    return listed != but;
}

/* NCCL leaves out loopback only where nothing is set, else it is the first of those that it may
 * take. One character is as nothing. */
static void check_interface_name(const DoctorOptions *o, DoctorReport *r)
{
    static const char advice[] = "unset it, or exclude: NCCL_SOCKET_IFNAME=^lo,docker,veth";
    char value[256], path[320], state[32], **names FREED = NULL;
    if (!doctor_environment(o, "NCCL_SOCKET_IFNAME", value, sizeof value) || !value[0] || !value[1])
        return;
    int64_t count = doctor_list(o, "/sys/class/net", &names);
    bool found = count == 0;
    for (int64_t i = 0; i < count && !found; i++) { /* other files lie there too */
        snprintf(path, sizeof path, "/sys/class/net/%s/operstate", names[i]);
        found = takes(value, names[i]) && doctor_read(o, path, state, sizeof state);
    }
    if (takes(value, "lo"))
        doctor_find(r, VERDICT_WARN, advice,
                    "NCCL_SOCKET_IFNAME=%.100s makes NCCL choose lo, which reaches no other host",
                    value);
    else if (!found)
        doctor_find(r, VERDICT_WARN, advice, "NCCL_SOCKET_IFNAME=%.100s matches no interface",
                    value);
}

void doctor_check_variables(const DoctorOptions *o, DoctorReport *r)
{
    char value[256];
    int found = r->count;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const VariableRow *row = &variables[i];
        if (!doctor_environment(o, row->name, value, sizeof value) || !hurts(row, value)) continue;
        doctor_find(r, VERDICT_WARN, row->advice, "%s=%.60s %s", row->name, value, row->why);
    }
    check_interface_name(o, r);
    if (r->count == found) doctor_find(r, VERDICT_OK, "", "none is harmful");
}

void doctor_check_libraries(const DoctorOptions *o, DoctorReport *r)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    (void)o;
    build_info_describe(&text);
    for (char *line = text.text; line && *line;) {
        size_t length = strcspn(line, "\n");
        doctor_find(r, VERDICT_OK, "", "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}
