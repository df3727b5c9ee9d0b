/* cover.c - notes which code a program reaches, for scripts/dev/mutants.py.
 *
 * Linked into programs that were compiled with -fsanitize-coverage=trace-pc and without -fPIE: a
 * call at the head of every basic block. Each program keeps a file COVER_FOLDER/NAME, one byte for
 * each byte of its text, in which a block that was entered has a 1 behind its call. The file is
 * mapped, so a process that is killed has noted what it reached, and many may note in one. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void __sanitizer_cov_trace_pc(void);

extern char __executable_start, etext;
static uint8_t *reached; /* NULL before open_notes(), and where no folder was named */

void __sanitizer_cov_trace_pc(void)
{
    uint8_t *notes = __atomic_load_n(&reached, __ATOMIC_RELAXED);
    if (!notes) return;
    uint8_t *note = notes + ((char *)__builtin_return_address(0) - &__executable_start);
    if (!__atomic_load_n(note, __ATOMIC_RELAXED)) __atomic_store_n(note, 1, __ATOMIC_RELAXED);
}

/* Before the constructors without a number, which are the program's own. */
__attribute__((constructor(101))) static void open_notes(void)
{
    const char *folder = getenv("COVER_FOLDER");
    size_t bytes = (size_t)(&etext - &__executable_start);
    char path[4096];
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%s", folder, program_invocation_short_name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) abort();
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) abort();
    close(fd);
    __atomic_store_n(&reached, at, __ATOMIC_RELAXED);
}
