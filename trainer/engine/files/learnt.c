/* learnt.c - see learnt.h. */
#include "trainer/engine/files/learnt.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

Status learnt_open(Learnt *out, const SafeFile *file, const char *path)
{
    const char *text = safetensors_metadata(file, "class_names");
    const char *named = safetensors_metadata(file, "named_classes");
    const char *words = safetensors_metadata(file, "words");
    *out = (Learnt){ .text = NULL };
    if (!text || !safetensors_metadata(file, "convoy")) return OK; /* another's may mean others */
    out->text = mem_strdup(text);
    out->path = mem_strdup(path);
    out->words = mem_strdup(words && words[0] ? words : text);
    if (!out->text || !out->path || !out->words) return ERR_MEMORY;
    TRY(class_list_parse(&out->list, &out->names, out->text, named && strcmp(named, "1") == 0,
                         out->path));
    out->list.closed = true;
    return OK;
}

Status learnt_open_file(Learnt *out, const char *path)
{
    SafeFile *file = NULL;
    *out = (Learnt){ .text = NULL };
    Status status = safetensors_open_header(&file, path);
    if (status != OK) return status == ERR_MEMORY ? status : OK;
    status = learnt_open(out, file, path);
    safetensors_close(file);
    return status;
}

Status learnt_open_run(Learnt *out, const Config *c)
{
    const char *resume = c->checkpoint.resume;
    char *dir = fs_join(c->run.dir, "checkpoints"), **files = NULL;
    int64_t count = 0, steps = 0;
    *out = (Learnt){ .text = NULL };
    if (!dir) return ERR_MEMORY;
    Status status = OK;
    if (strcmp(resume, "none") != 0 && fs_is_dir(dir)) status = fs_list(dir, &files, &count);
    while (count-- > 0 && status == OK && !out->text) { /* the newest comes last */
        char *file = str_starts_with(files[count], "step-") ? fs_join(dir, files[count]) : NULL;
        if (!file) continue;
        steps++;
        status = learnt_open_file(out, file);
        mem_free(file);
    }
    if (status == OK && steps == 0 && strcmp(resume, "none") != 0 && strcmp(resume, "auto") != 0)
        status = learnt_open_file(out, resume);
    mem_free(files);
    mem_free(dir);
    return status == ERR_DATA ? OK : status; /* what cannot be listed is told later */
}

Status learnt_check_words(const Learnt *l, const Dataset *d)
{
    SequenceFacts facts;
    Dictionary *theirs = NULL;
    if (!d || !l->words || !sequences_facts(d, &facts)) return OK;
    Status status = dictionary_make(&theirs, l->words, l->path);
    if (status == OK) status = dictionary_check_like(facts.dictionary, theirs);
    dictionary_destroy(theirs);
    return status;
}

void learnt_close(Learnt *l)
{
    mem_free(l->words);
    mem_free(l->names);
    mem_free(l->text);
    mem_free(l->path);
}
