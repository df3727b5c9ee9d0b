/* hosts.c - see hosts.h. */
#include "trainer/app/launch/hosts.h"

#include "base/str.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLOTS_MAX  1024
#define SHOWN      60 /* characters of a wrong line that the message shows */
#define LINE_BYTES 512

/* ---- the output of a hosts script ---- */

/* Names and IPv4 addresses. What mpirun's host files give a meaning of their own is not among
 * them. */
static bool is_name(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n >= HOST_NAME_BYTES || !isalnum((unsigned char)s[0])) return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == n;
}

/* "fe80::1", "[fe80::1]:4": more than one colon; a name with slots has one. */
static bool is_ipv6(const char *line)
{
    const char *colon = strchr(line, ':');
    return colon && strspn(line, " \t[:.%abcdefABCDEF0123456789") > (size_t)(colon - line) &&
           strchr(colon + 1, ':');
}

static bool read_slots(const char *text, int *slots)
{
    int64_t value;
    if (!str_to_i64(text, &value) || value < 1 || value > SLOTS_MAX) return false;
    *slots = (int)value;
    return true;
}

/* Takes ":4" off the end of a name. */
static bool cut_slots(char *name, int *slots)
{
    char *colon = strchr(name, ':');
    if (!colon) return true;
    *colon = '\0';
    return read_slots(colon + 1, slots);
}

/* line: without comment, not blank; is written to. */
static bool read_host(char *line, Host *host)
{
    char *rest = NULL, *more = NULL;
    char *name = strtok_r(line, " \t\r", &rest);
    char *second = strtok_r(NULL, " \t\r", &rest);
    if (second) more = strtok_r(NULL, " \t\r", &rest);
    if (!name || more || !cut_slots(name, &host->slots) || !is_name(name)) return false;
    if (second && (!str_starts_with(second, "slots=") ||
                   !read_slots(second + strlen("slots="), &host->slots)))
        return false;
    snprintf(host->name, sizeof host->name, "%s", name);
    return true;
}

static int find(const HostList *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->host[i].name, name) == 0) return i;
    return -1;
}

bool hosts_have(const HostList *list, const char *name)
{
    return find(list, name) >= 0;
}

static Status add_line(HostList *out, int *duplicates, const char *text, size_t n,
                       int default_slots)
{
    char line[LINE_BYTES];
    Host host = { .slots = default_slots };
    size_t used = n < sizeof line - 1 ? n : sizeof line - 1;
    memcpy(line, text, used);
    line[used] = '\0';
    line[strcspn(line, "#")] = '\0';
    if (line[strspn(line, " \t\r")] == '\0') return OK;
    if (is_ipv6(line))
        return fail(ERR_DATA,
                    "\"%.*s\" is an IPv6 address, which Open MPI does not accept; use a host name",
                    n < SHOWN ? (int)n : SHOWN, text);
    if (used < n || !read_host(line, &host))
        return fail(ERR_DATA, "\"%.*s\" is not a host name", n < SHOWN ? (int)n : SHOWN, text);
    if (find(out, host.name) >= 0) {
        *duplicates += 1;
        return OK;
    }
    if (out->count == HOSTS_MAX) return fail(ERR_DATA, "more than %d hosts", HOSTS_MAX);
    out->host[out->count++] = host;
    return OK;
}

Status hosts_parse(HostList *out, int *duplicates, const char *text, int default_slots)
{
    out->count = *duplicates = 0;
    for (int number = 1; *text; number++) {
        size_t n = strcspn(text, "\n");
        Status status = add_line(out, duplicates, text, n, default_slots);
        if (status != OK) {
            out->count = 0;
            return fail_note(status, "line %d", number);
        }
        text += n + (text[n] == '\n');
    }
    return OK;
}

int hosts_ranks(const HostList *list)
{
    int ranks = 0;
    for (int i = 0; i < list->count; i++) ranks += list->host[i].slots;
    return ranks;
}

void hosts_add(HostList *list, const HostList *more)
{
    for (int i = 0; i < more->count && list->count < HOSTS_MAX; i++)
        if (find(list, more->host[i].name) < 0) list->host[list->count++] = more->host[i];
}

void hosts_keep(HostList *list, const HostList *these)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (find(these, list->host[i].name) >= 0) list->host[kept++] = list->host[i];
    list->count = kept;
}

/* ---- cooldown ---- */

/* NULL: nothing is known of it. */
static HostNote *find_note(HostBook *book, const char *name)
{
    for (int i = 0; i < book->count; i++)
        if (strcmp(book->note[i].name, name) == 0) return &book->note[i];
    return NULL;
}

static HostNote *note_of(HostBook *book, const char *name)
{
    HostNote *note = find_note(book, name);
    if (note) return note;
    /* forget the oldest: names are made up by schedulers without end */
    if (book->count == HOSTS_MAX) {
        memmove(&book->note[0], &book->note[1], (HOSTS_MAX - 1) * sizeof book->note[0]);
        book->count--;
    }
    note = &book->note[book->count++];
    *note = (HostNote){ .strikes = 0 };
    snprintf(note->name, sizeof note->name, "%s", name);
    return note;
}

double hosts_strike(HostBook *book, const char *name, double now, double cooldown_s)
{
    HostNote *note = note_of(book, name);
    double wait_s =
        fmin(cooldown_s * exp2(note->strikes < 30 ? note->strikes : 30), HOSTS_COOLDOWN_MAX_S);
    note->strikes++;
    note->left_out_s = wait_s;
    note->until_s = now + wait_s;
    return wait_s;
}

double hosts_cooldown(const HostBook *book, const char *name, double now)
{
    for (int i = 0; i < book->count; i++)
        if (strcmp(book->note[i].name, name) == 0) return fmax(book->note[i].until_s - now, 0);
    return 0;
}

void hosts_end_cooldown(HostBook *book, const char *name, double now)
{
    HostNote *note = find_note(book, name);
    if (note) note->until_s = fmin(note->until_s, now);
}

void hosts_forgive(HostBook *book, const HostList *used, double ran_s, double least_s)
{
    for (int i = 0; i < used->count; i++) {
        HostNote *note = find_note(book, used->host[i].name);
        if (note && ran_s >= fmax(least_s, note->left_out_s)) note->strikes = 0;
    }
}

/* ---- the choice ---- */

void hosts_choose(HostList *out, const HostList *listed, const HostList *previous,
                  const HostBook *book, double now)
{
    out->count = 0;
    for (int pass = 0; pass < 2; pass++) {
        const HostList *order = pass == 0 ? previous : listed;
        for (int i = 0; i < order->count; i++) {
            int at = find(listed, order->host[i].name);
            if (at < 0 || find(out, order->host[i].name) >= 0) continue;
            if (hosts_cooldown(book, order->host[i].name, now) <= 0)
                out->host[out->count++] = listed->host[at];
        }
    }
}

void hosts_choose_cooling(HostList *out, const HostList *listed, const HostBook *book, double now,
                          double patience_s)
{
    out->count = 0;
    for (int i = 0; i < book->count; i++) {
        const HostNote *note = &book->note[i];
        int at = find(listed, note->name), place = out->count;
        if (at < 0 || note->until_s <= now || now - (note->until_s - note->left_out_s) < patience_s)
            continue;
        for (; place > 0 &&
               hosts_cooldown(book, out->host[place - 1].name, now) > note->until_s - now;
             place--)
            out->host[place] = out->host[place - 1];
        out->host[place] = listed->host[at];
        out->count++;
    }
}

bool hosts_fit(HostList *list, const HostsWanted *wanted)
{
    int whole = list->count;
    if (wanted->max_hosts > 0 && list->count > wanted->max_hosts) list->count = wanted->max_hosts;
    for (; list->count >= wanted->min_hosts && list->count > 0; list->count--)
        if (wanted->global_batch % hosts_ranks(list) == 0) return true;
    list->count = whole;
    return false;
}
