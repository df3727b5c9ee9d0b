/* outputs.c - see outputs.h. */
#include "trainer/engine/files/outputs.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* of a run, in its folder */
static const char *const own_files[] = {
    "metrics.jsonl", "config.yaml",        "config-*.yaml", "log.txt",     "launch.jsonl",
    "launch.lock",   "launch.status.json", "launch.hosts",  "stop",        "launch.stop",
    "hang-*.json",   "scale.jsonl",        "scale.lock",    "checkpoints", "checkpoints/*",
    "tensorboard",   "tensorboard/*",      "trace-*.json",
};
static const char *const images[] = { ".jpg", ".jpeg", ".png", ".tar", ".tfrecord" };
/* of a dataset, in its folder */
static const char *const set_files[] = { "*.bin", "*.meta.txt", "*_label_names.txt", "*-ubyte",
                                         "*.tar", "*.tfrecord", "*.tfrecords",       "*-of-*" };

/* Which is no file, or is standard output or error by another name. */
static bool is_stream(const char *path)
{
    struct stat info, standard;
    if (strcmp(path, "-") == 0) return true;
    if (stat(path, &info) != 0) return false;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        if (fstat(i, &standard) == 0 && standard.st_dev == info.st_dev &&
            standard.st_ino == info.st_ino)
            return true;
    return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

void outputs_add_written(Outputs *o, const char *key, const char *path)
{
    if (!path || !path[0] || is_stream(path)) return;
    ASSERT(o->written_count < OUTPUTS_MAX);
    o->written[o->written_count].key = key;
    o->written[o->written_count++].path = path;
}

void outputs_add_read(Outputs *o, const char *key, const char *path)
{
    if (!path || !path[0] || strcmp(path, "-") == 0 || o->read_count == OUTPUTS_MAX) return;
    o->read[o->read_count].key = key;
    o->read[o->read_count++].path = path;
}

void outputs_add_config(Outputs *o, const Config *c)
{
    o->config = c;
    outputs_add_read(o, "data.train", c->data.train);
    outputs_add_read(o, "data.val", c->data.val);
    outputs_add_read(o, "data.class_map", c->data.class_map);
    outputs_add_read(o, "train.class_weights", c->train.class_weights);
    outputs_add_read(o, "model.init", c->model.init);
    outputs_add_read(o, "train.teacher", c->train.teacher);
    outputs_add_read(o, "checkpoint.resume", c->checkpoint.resume);
}

/* The name of a run's own file, which place is; NULL: of none. */
static const char *own_file(const char *place, const char *folder)
{
    const size_t n = strlen(folder);
    const bool inside = strncmp(place, folder, n) == 0 && place[n] == '/';
    for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++) {
        char *file = fs_join(folder, own_files[i]); /* the same by a hard link */
        const bool same = file && fs_same_file(file, place);
        mem_free(file);
        if (same || (inside && str_matches(own_files[i], place + n + 1))) return own_files[i];
    }
    return NULL;
}

/* The same where any folder above it may be a run's. Cuts place short. */
static const char *any_own_file(char *place)
{
    char *whole = mem_strdup(place), *slash;
    const char *found = NULL;
    for (int up = 0; whole && up < 2 && !found && (slash = strrchr(place, '/')) > place; up++) {
        *slash = '\0';
        if (fs_holds(place, "metrics.jsonl")) found = own_file(whole, place);
    }
    mem_free(whole);
    return found;
}

static const char *own_file_of(const char *place, const char *run_dir)
{
    char *folder = run_dir ? fs_place(run_dir) : NULL;
    const char *own = folder ? own_file(place, folder) : NULL;
    mem_free(folder);
    return own;
}

static bool same_place(const char *place, const char *path)
{
    char *other = fs_place(path);
    const bool same = other && (strcmp(place, other) == 0 || fs_same_file(place, other));
    mem_free(other);
    return same;
}

/* Class folders are listed, so nothing else may be made among them. */
Status outputs_check_apart(const char *key, const char *path, const char *set_key,
                           const DatasetOptions *set)
{
    bool folders = false, in_place = false;
    if (!set->path || !set->path[0] || !fs_lies_in(path, set->path)) return OK;
    TRY(dataset_is_folders(&folders, set));
    if (folders)
        return fail(ERR_USAGE,
                    "%s: %s is in %s (%s), where each folder is a class; use another folder", key,
                    path, set_key, set->path);
    char *place = fs_place(path);
    if (!place) return ERR_MEMORY;
    for (size_t i = 0; i < sizeof set_files / sizeof *set_files; i++)
        in_place |= str_matches(set_files[i], strrchr(place, '/') + 1);
    mem_free(place);
    return in_place ? fail(ERR_USAGE,
                           "%s: %s is named like a dataset file and is in %s (%s); use another "
                           "name or folder",
                           key, path, set_key, set->path)
                    : OK;
}

static Status check_apart(const Config *c, const char *key, const char *path)
{
    const struct {
        const char *key;
        DatasetOptions set;
    } sets[] = {
        { "data.train", { .path = c->data.train, .format = c->data.format, .role = DATA_TRAIN } },
        { "data.val", { .path = c->data.val, .format = c->data.format, .role = DATA_VAL } }
    };
    for (int i = 0; i < 2 && c->data.format != DATA_SYNTHETIC && path[0]; i++)
        TRY(outputs_check_apart(key, path, sets[i].key, &sets[i].set));
    return OK;
}

Status outputs_check_folders(const Config *c)
{
    const char *index = c->data.index;
    if (strcmp(index, "auto") != 0 && strcmp(index, "off") != 0)
        TRY(check_apart(c, "data.index", index));
    TRY(check_apart(c, "data.cache_dir", c->data.cache_dir));
    TRY(check_apart(c, "scale.dir", c->scale.dir));
    return check_apart(c, "run.dir", c->run.dir);
}

static Status check(const Outputs *o, int i, char *place)
{
    const char *key = o->written[i].key, *path = o->written[i].path, *own;
    for (int k = 0; k < i; k++)
        if (same_place(place, o->written[k].path))
            return fail(ERR_USAGE, "%s: %s is also written by %s; use different files", key, path,
                        o->written[k].key);
    for (int k = 0; k < o->read_count; k++)
        if (same_place(place, o->read[k].path))
            return fail(ERR_USAGE, "%s: %s is also read (%s); use another file", key, path,
                        o->read[k].key);
    for (size_t k = 0; k < sizeof images / sizeof *images; k++)
        if (str_ends_with_nocase(place, images[k]) && fs_exists(place))
            return fail(ERR_USAGE, "%s: %s contains images; use another file", key, path);
    if (o->config) TRY(check_apart(o->config, key, path));
    own = own_file_of(place, o->run_dir);
    for (int k = 0; k < o->read_count && !own; k++) /* a folder stands for the checkpoints in it */
        if (fs_holds(o->read[k].path, "checkpoints")) own = own_file_of(place, o->read[k].path);
    if (!own) own = any_own_file(place);
    return own ? fail(ERR_USAGE, "%s: %s belongs to the run (%s); use another file", key, path, own)
               : OK;
}

/* A run writes to what it keeps, but for its checkpoints and configurations. */
static Status check_read(const Outputs *o, int i)
{
    char *place = fs_place(o->read[i].path);
    const char *own = place ? own_file_of(place, o->run_dir) : NULL;
    mem_free(place);
    if (!place) return ERR_MEMORY;
    if (!own || str_starts_with(own, "checkpoints") || str_starts_with(own, "config")) return OK;
    return fail(ERR_USAGE, "%s: %s belongs to the run (%s), which writes it; use another file",
                o->read[i].key, o->read[i].path, own);
}

Status outputs_check(const Outputs *o)
{
    Status status = OK;
    for (int i = 0; i < o->read_count; i++) TRY(check_read(o, i));
    for (int i = 0; i < o->written_count && status == OK; i++) {
        char *place = fs_place(o->written[i].path);
        status = place ? check(o, i, place) : ERR_MEMORY;
        mem_free(place);
    }
    return status;
}
