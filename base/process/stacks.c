/* stacks.c - see stacks.h. The signal carries the place of the answer, so that a thread that
 * answers late writes where nobody else does. */
#include "base/process/stacks.h"
#include "base/clock.h"
#include "base/mapping.h"
#include "base/mem.h"
#include "base/thread.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- names of functions, static ones too, from this program's own file ----
 *
 * Reads .symtab of the ELF file; what lies outside the file is not believed. */

typedef struct Table {
    const Elf64_Sym *symbol;
    size_t symbols;
    const char *names;
    size_t name_bytes;
} Table;

static bool fits(size_t offset, size_t bytes, size_t all)
{
    return offset <= all && bytes <= all - offset;
}

static bool find_table(const uint8_t *file, size_t bytes, Table *t)
{
    const Elf64_Ehdr *header = (const void *)file;
    if (bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    if (!fits(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr), bytes)) return false;
    const Elf64_Shdr *section = (const void *)(file + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *s = &section[i];
        if (s->sh_type != SHT_SYMTAB || s->sh_link >= header->e_shnum) continue;
        const Elf64_Shdr *names = &section[s->sh_link];
        if (!fits(s->sh_offset, s->sh_size, bytes) ||
            !fits(names->sh_offset, names->sh_size, bytes))
            return false;
        *t = (Table){ .symbol = (const void *)(file + s->sh_offset),
                      .symbols = s->sh_size / sizeof(Elf64_Sym),
                      .names = (const char *)(file + names->sh_offset),
                      .name_bytes = names->sh_size };
        return t->name_bytes > 0 && t->names[t->name_bytes - 1] == '\0';
    }
    return false;
}

static bool find_function(const Table *t, uintptr_t offset, char *name, size_t bytes,
                          uintptr_t *start)
{
    for (size_t i = 0; i < t->symbols; i++) {
        const Elf64_Sym *s = &t->symbol[i];
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_name >= t->name_bytes) continue;
        if (offset < s->st_value || offset - s->st_value >= s->st_size) continue;
        snprintf(name, bytes, "%s", t->names + s->st_name);
        *start = s->st_value;
        return true;
    }
    return false;
}

/* The function that holds offset, an address less that of the program's first byte (dladdr()'s
 * dli_fbase), and where it begins. false: it is not known, for example where the program was
 * stripped. */
static bool find_symbol(uintptr_t offset, char *name, size_t bytes, uintptr_t *start)
{
    struct stat info;
    Table table;
    bool found = false;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t size = fstat(fd, &info) == 0 ? (size_t)info.st_size : 0;
    void *file = size ? mapping_open(fd, size, false) : NULL;
    close(fd);
    if (!file) return false;
    if (find_table(file, size, &table)) found = find_function(&table, offset, name, bytes, start);
    mapping_close(file, size);
    return found;
}

/* ---- stacks ---- */

enum { OWN_FRAMES = 2 }; /* the handler, and what the kernel returns to from it */

typedef struct Answers { /* kept for the life of the process: one may come at any later time */
    struct Answers *next;
    ThreadStack stack[];
} Answers;

static void answer(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    ThreadStack *stack = info->si_value.sival_ptr;
    void *frame[STACKS_DEPTH + OWN_FRAMES];
    int error = errno;
    if (info->si_code == SI_QUEUE && info->si_pid == getpid() && stack) {
        int depth = backtrace(frame, STACKS_DEPTH + OWN_FRAMES) - OWN_FRAMES;
        for (int i = 0; i < depth; i++) stack->frame[i] = frame[i + OWN_FRAMES];
        stack->depth = depth > 0 ? depth : 0;
    }
    errno = error;
}

void stacks_prepare(void)
{
    void *frame[1];
    struct sigaction action = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigemptyset(&action.sa_mask);
    backtrace(frame, 1); /* loads libgcc, which the handler could not */
    sigaction(THREAD_STACK_SIGNAL, &action, NULL);
}

static void ask(int thread, ThreadStack *stack)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = stack;
    /* a thread that is gone does not answer */
    syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, THREAD_STACK_SIGNAL, &info);
}

static bool all_answered(const ThreadStack *stacks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (stacks[i].depth == 0) return false;
    return true;
}

const ThreadStack *stacks_ask(const int *threads, size_t count, double limit_s)
{
    static Answers *kept;
    Answers *answers = mem_calloc(1, sizeof *answers + count * sizeof answers->stack[0]);
    if (!answers) return NULL;
    answers->next = kept;
    kept = answers;
    ThreadStack *stacks = answers->stack;
    for (size_t i = 0; i < count; i++) ask(threads[i], &stacks[i]);
    for (double end_s = clock_s() + limit_s; clock_s() < end_s && !all_answered(stacks, count);)
        clock_sleep_s(0.01);
    return stacks;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_own(const Dl_info *file)
{
    Dl_info own;
    const void *code;
    void (*here)(void) = stacks_prepare;
    memcpy(&code, &here, sizeof code);
    return dladdr(code, &own) != 0 && own.dli_fbase == file->dli_fbase;
}

void stacks_describe(StrBuf *out, const ThreadStack *stack, int frame)
{
    char name[128];
    Dl_info file;
    uintptr_t address = (uintptr_t)stack->frame[frame], start = 0;
    uintptr_t inside = address - (frame > 0); /* the call, not what it returns to */
    if (dladdr(stack->frame[frame], &file) == 0 || !file.dli_fname) {
        str_printf(out, "%#zx", (size_t)address);
        return;
    }
    uintptr_t base = (uintptr_t)file.dli_fbase;
    if (is_own(&file) && find_symbol(inside - base, name, sizeof name, &start))
        str_printf(out, "%s+%#zx ", name, (size_t)(address - base - start));
    else if (file.dli_sname)
        str_printf(out, "%s+%#zx ", file.dli_sname, (size_t)(address - (uintptr_t)file.dli_saddr));
    str_printf(out, "(%s+%#zx)", base_name(file.dli_fname), (size_t)(inside - base));
}
