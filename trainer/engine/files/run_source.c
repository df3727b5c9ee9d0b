/* run_source.c - see run_source.h. */
#include "trainer/engine/files/run_source.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/files/checkpoint_model.h"
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* The length of a header in eight bytes, which no text has, and its JSON. */
bool run_source_is_checkpoint(const char *word)
{
    unsigned char head[9] = { 0 };
    int fd = open(word, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0) close(fd);
    return n == sizeof head && head[8] == '{' && head[6] == 0 && head[7] == 0;
}

/* RUN of RUN/checkpoints/FILE, "" of any other path. */
static void add_folder(const char *path, StrBuf *out)
{
    static const char inside[] = "/checkpoints";
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0, length = sizeof inside - 1;
    if (n > length && strncmp(path + n - length, inside, length) == 0)
        str_add_n(out, path, n - length);
    else if (n == length - 1 && strncmp(path, inside + 1, n) == 0) str_add(out, ".");
}

static Status config_of_checkpoint(Config **out, const char *path, const char *const *sets,
                                   int set_count)
{
    SafeFile *file = NULL;
    CheckpointMeta meta;
    StrBuf dir = { 0 };
    TRY(checkpoint_open(&file, &meta, path));
    Status status = checkpoint_model_config(out, &meta, path);
    str_add(&dir, "run.dir=");
    add_folder(path, &dir);
    if (status == OK && dir.failed) status = ERR_MEMORY;
    if (status == OK) status = config_override(*out, (const char *const[]){ dir.text }, 1);
    if (status == OK) status = config_override(*out, sets, set_count);
    str_free(&dir);
    safetensors_close(file);
    if (status == OK) return OK;
    config_destroy(*out);
    *out = NULL;
    return status;
}

Status run_source_config(Config **out, const char *word, const char *const *sets, int set_count)
{
    *out = NULL;
    if (word && run_source_is_checkpoint(word))
        return config_of_checkpoint(out, word, sets, set_count);
    return config_load(out, word, sets, set_count);
}

Status run_source_checkpoint(char **out, const char *word)
{
    static const char *const links[] = { "best", "latest" };
    char target[PATH_MAX];
    ssize_t n = -1;
    *out = NULL;
    if (!fs_is_dir(word)) return (*out = mem_strdup(word)) ? OK : ERR_MEMORY;
    char *dir = fs_join(word, "checkpoints");
    for (int i = 0; dir && i < 2 && n <= 0 && !*out; i++) {
        char *link = fs_join(dir, links[i]);
        const bool there = link && fs_exists(link);
        n = there ? readlink(link, target, sizeof target - 1) : -1;
        if (there && n < 0) *out = link; /* a file: copied without links */
        else mem_free(link);
    }
    if (n > 0) target[n] = '\0';
    if (n > 0) *out = target[0] == '/' ? mem_strdup(target) : fs_join(dir, target);
    mem_free(dir);
    if (*out) return OK;
    if (fs_holds(word, "config.yaml") || fs_holds(word, "checkpoints"))
        return fail(ERR_DATA,
                    "%s: the run has no checkpoint: no checkpoints/best or checkpoints/latest",
                    word);
    return fail(ERR_USAGE, "%s: not a run folder: it has no checkpoints", word);
}
