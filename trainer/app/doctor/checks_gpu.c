/* checks_gpu.c - the GPUs of the host, by NVML; what tells of energy. */
#include "base/clock.h"
#include "trainer/app/doctor/doctor.h"
#include "trainer/engine/energy/powercap.h"
#include <stdio.h>

#define HOT_C      85.0
#define CPU_LOOK_S 0.05

typedef struct ThrottleRow {
    uint64_t bit;
    const char *text, *advice;
} ThrottleRow;

static const ThrottleRow throttles[] = {
    { NVML_THROTTLE_HW_SLOWDOWN, "the hardware limits the clocks",
      "check the power supply and cooling of the host" },
    { NVML_THROTTLE_HW_THERMAL, "the hardware limits the clocks: too hot",
      "check the cooling of the host" },
    { NVML_THROTTLE_SW_THERMAL, "the driver limits the clocks: too hot",
      "check the cooling of the host" },
    { NVML_THROTTLE_POWER_BRAKE, "the host's power supply limits the clocks",
      "check the power supply of the host" },
};

static void check_state(DoctorReport *r, int gpu, const GpuFacts *f, const GpuState *s)
{
    for (size_t i = 0; i < sizeof throttles / sizeof throttles[0]; i++)
        if (s->throttle_reasons & throttles[i].bit)
            doctor_find(r, VERDICT_WARN, throttles[i].advice, "GPU %d: %s (%.0f of %.0f MHz)", gpu,
                        throttles[i].text, s->sm_clock_mhz, f->sm_clock_max_mhz);
    if (s->temperature_c >= HOT_C)
        doctor_find(r, VERDICT_WARN, "check the cooling of the host",
                    "GPU %d: %.0f degrees Celsius", gpu, s->temperature_c);
    if (s->ecc_errors > 0)
        doctor_find(r, VERDICT_FAIL,
                    "stop using the host; reset the GPU; if errors return, have it replaced",
                    "GPU %d: %.0f uncorrected memory errors", gpu, s->ecc_errors);
    if (s->pcie_width < f->pcie_width_max)
        doctor_find(r, VERDICT_WARN,
                    "a riser or slot has fewer lanes than the GPU: copies to it are slower",
                    "GPU %d: PCIe link of %.0f lanes, it "
                    "could have %.0f",
                    gpu, s->pcie_width, f->pcie_width_max);
    if (s->memory_used_bytes > 0.1 * f->memory_bytes)
        doctor_find(r, VERDICT_WARN, "nvidia-smi shows which process uses it",
                    "GPU %d: %.1f of %.1f GiB of its memory are in use", gpu,
                    s->memory_used_bytes / (1 << 30), f->memory_bytes / (1 << 30));
}

static void check_gpu(const Nvml *n, DoctorReport *r, int gpu)
{
    GpuFacts f;
    GpuState s;
    nvml_facts(n, gpu, &f);
    nvml_state(n, gpu, &s);
    doctor_find(r, VERDICT_OK, "",
                "GPU %d: %s, %.0f GiB, %.0f of %.0f MHz, %.0f of %.0f W, %.0f degrees Celsius", gpu,
                f.name, f.memory_bytes / (1 << 30), s.sm_clock_mhz, f.sm_clock_max_mhz, s.power_w,
                f.power_limit_w, s.temperature_c);
    check_state(r, gpu, &f, &s);
}

/* GPUs of a host are alike: one with fewer links than another has lost some. */
static void check_links(const Nvml *n, DoctorReport *r)
{
    int most = 0;
    for (int i = 0; i < nvml_gpus(n); i++)
        if (nvml_links(n, i) > most) most = nvml_links(n, i);
    if (most == 0) return;
    doctor_find(r, VERDICT_OK, "", "GPUs have %d NVLinks", most);
    for (int i = 0; i < nvml_gpus(n); i++)
        if (nvml_links(n, i) < most)
            doctor_find(r, VERDICT_WARN,
                        "nvidia-smi nvlink -s; reset the GPU, or the fabric manager",
                        "GPU %d: %d NVLinks are up, others of this host have %d", i,
                        nvml_links(n, i), most);
}

void doctor_check_gpus(const DoctorOptions *o, DoctorReport *r)
{
    char text[64];
    bool driver = doctor_read(o, "/proc/driver/nvidia/version", text, sizeof text);
    int count = o->nvml ? nvml_gpus(o->nvml) : 0;
    if (!o->nvml && driver)
        doctor_find(r, VERDICT_FAIL,
                    "restart after a driver update, or give the container the driver's libraries "
                    "(nvidia-container-toolkit)",
                    "the NVIDIA driver is loaded but cannot be queried: %s", o->no_nvml);
    if (o->gpus >= 0 && count < o->gpus)
        doctor_find(r, VERDICT_FAIL,
                    "dmesg | grep Xid shows GPUs that fell off the bus; a container only sees the "
                    "GPUs that it was given",
                    "%d GPUs, %lld expected", count, (long long)o->gpus);
    if (!o->nvml && !driver && o->gpus <= 0)
        doctor_find(r, VERDICT_OK, "", "no NVIDIA driver: runs use the CPU");
    if (o->nvml) doctor_find(r, VERDICT_OK, "", "driver %s, %d GPUs", nvml_driver(o->nvml), count);
    for (int i = 0; i < count; i++) check_gpu(o->nvml, r, i);
    if (o->nvml) check_links(o->nvml, r);
}

/* ---- energy ---- */

/* Of those GPUs that there are. */
static void check_gpu_energy(const Nvml *n, DoctorReport *r)
{
    double joules;
    int count = nvml_gpus(n), counting = 0;
    for (int i = 0; i < count; i++) counting += nvml_energy(n, i, &joules);
    if (counting == count) doctor_find(r, VERDICT_OK, "", "%d GPUs have energy counters", count);
    else
        doctor_find(r, VERDICT_OK, "",
                    "%d of %d GPUs have no energy counter: energy is computed from their power, "
                    "once per second",
                    count - counting, count);
}

void doctor_check_energy(const DoctorOptions *o, DoctorReport *r)
{
    char dir[1024];
    double joules = 0, seconds = 1;
    Powercap *p = NULL;
    snprintf(dir, sizeof dir, "%s" POWERCAP_DIR, o->root);
    Status status = powercap_open(&p, dir);
    if (p) { /* some virtual machines have counters that stand still */
        seconds = clock_s();
        clock_sleep_s(CPU_LOOK_S);
        status = powercap_read(p, &joules);
        seconds = clock_s() - seconds;
    }
    if (o->nvml && nvml_gpus(o->nvml) > 0) check_gpu_energy(o->nvml, r);
    if (status != OK)
        doctor_find(r, VERDICT_OK,
                    "to measure it make the counter readable (chmod a+r) or run as root; or set an "
                    "estimate in cost.host_watts",
                    "CPU energy is not available: %s", status_message());
    else if (p)
        doctor_find(r, VERDICT_OK, "", "%d CPU packages have energy counters: %.0f W now",
                    powercap_packages(p), joules / seconds);
    else
        doctor_find(r, VERDICT_OK, "",
                    "no CPU energy counter (%s): cost.host_watts can be set to an estimate", dir);
    powercap_close(p);
}
