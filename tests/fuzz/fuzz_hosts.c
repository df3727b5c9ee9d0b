/* fuzz_hosts.c - what a hosts script prints, and the choice of hosts from it. The first two bytes
 * are the slots of a host that names none and the global batch. What is taken can be handed to
 * mpirun: plain names, no host twice, slots in range; written as a list it reads as itself. */
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/app/launch/hosts.h"
#include <string.h>

static HostList listed, again, chosen, cooling; /* large; one input at a time */
static HostBook book;

static void check_hosts(const HostList *list)
{
    ASSERT(list->count >= 0 && list->count <= HOSTS_MAX);
    for (int i = 0; i < list->count; i++) {
        const Host *h = &list->host[i];
        ASSERT(h->name[0] && strlen(h->name) < HOST_NAME_BYTES && h->name[0] != '-');
        ASSERT(!strpbrk(h->name, " \t\r\n:,;#$`'\"\\/*?[](){}<>|&!~"));
        ASSERT(h->slots >= 1);
        for (int k = 0; k < i; k++) ASSERT(strcmp(h->name, list->host[k].name) != 0);
    }
}

static void read_back(void)
{
    StrBuf text = { 0 };
    int duplicates;
    for (int i = 0; i < listed.count; i++)
        str_printf(&text, "%s slots=%d\n", listed.host[i].name, listed.host[i].slots);
    ASSERT(hosts_parse(&again, &duplicates, text.text ? text.text : "", 1) == OK);
    ASSERT(duplicates == 0 && again.count == listed.count);
    for (int i = 0; i < listed.count; i++) {
        ASSERT(strcmp(again.host[i].name, listed.host[i].name) == 0);
        ASSERT(again.host[i].slots == listed.host[i].slots);
    }
    str_free(&text);
}

int fuzz_hosts(const uint8_t *data, size_t size)
{
    int duplicates;
    if (size < 2) return 0;
    char *text = mem_alloc(size - 1);
    ASSERT(text != NULL);
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    Status status = hosts_parse(&listed, &duplicates, text, 1 + data[0]);
    mem_free(text);
    check_hosts(&listed);
    if (status != OK) {
        ASSERT(listed.count == 0);
        return 0;
    }
    read_back();
    book.count = 0;
    for (int i = 0; i < listed.count; i += 2)
        hosts_strike(&book, listed.host[i].name, 10 * i, data[0]);
    hosts_choose(&chosen, &listed, &again, &book, 100);
    hosts_choose_cooling(&cooling, &listed, &book, 100, data[1]);
    hosts_add(&chosen, &cooling);
    check_hosts(&chosen);
    const HostsWanted wanted = { .min_hosts = 1, .max_hosts = data[0], .global_batch = data[1] };
    if (!hosts_fit(&chosen, &wanted)) return 0;
    ASSERT(chosen.count >= 1 && (data[0] == 0 || chosen.count <= data[0]));
    if (data[1] > 0) ASSERT(data[1] % hosts_ranks(&chosen) == 0);
    return 0;
}
