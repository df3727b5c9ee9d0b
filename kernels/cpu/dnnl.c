/* dnnl.c - oneDNN's status in our words. */
#include "kernels/cpu/dnnl.h"
#include <oneapi/dnnl/dnnl_debug.h>

Status cpu_dnnl_status(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success) return OK;
    return fail(status == dnnl_out_of_memory ? ERR_MEMORY : ERR_INTERNAL, "oneDNN: %s: %s", what,
                dnnl_status2str(status));
}
