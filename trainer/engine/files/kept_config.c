/* kept_config.c - see kept_config.h. */
#include "trainer/engine/files/kept_config.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static Status keep(const char *dir, const char *path, const StrBuf *now)
{
    StrBuf name = { 0 };
    uint8_t *then = NULL;
    size_t bytes = 0;
    if (!fs_exists(path)) return OK;
    Status status = fs_read_file(path, &then, &bytes);
    const bool same = status == OK && strcmp((const char *)then, now->text) == 0;
    for (int n = 1; status == OK && (n == 1 || (!name.failed && fs_exists(name.text))); n++) {
        str_clear(&name);
        str_printf(&name, "%s/config-%d.yaml", dir, n);
    }
    if (status == OK && !same)
        status = name.failed ? ERR_MEMORY : fs_write_atomic(name.text, then, bytes);
    str_free(&name);
    mem_free(then);
    return status;
}

Status kept_config_write(const char *dir, const Config *config, bool is_new)
{
    StrBuf text = { 0 };
    char *path = fs_join(dir, "config.yaml");
    Status status = path ? config_dump_yaml(config, &text) : ERR_MEMORY;
    if (status == OK && !is_new) status = keep(dir, path, &text);
    status = fs_write_text(status, path, &text);
    mem_free(path);
    return status;
}
