/* symbols.c - see symbols.h. Reads .symtab of the ELF file; what lies outside the file is not
 * believed. */
#include "base/process/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool symbols_find(uintptr_t offset, char *name, size_t bytes, uintptr_t *start)
{
    struct stat info;
    Table table;
    bool found = false;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t size = fstat(fd, &info) == 0 ? (size_t)info.st_size : 0;
    void *file = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED) return false;
    if (find_table(file, size, &table)) found = find_function(&table, offset, name, bytes, start);
    munmap(file, size);
    return found;
}
