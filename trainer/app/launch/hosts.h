/* hosts.h - which hosts a supervised run may use: the output of a hosts script (docs/launch.md),
 * what is known of each host, and the choice of those to run on. Pure arithmetic over lists; asks
 * no host anything.
 *
 * COOLDOWN. A host that was lost in a run gets a strike: it is left out for the cooldown, doubled
 * with every further strike up to HOSTS_COOLDOWN_MAX_S. A host that is needed comes back earlier
 * (hosts_choose_cooling()), and one that then holds out is as good as new (hosts_forgive()). */
#ifndef CONVOY_TRAINER_APP_LAUNCH_HOSTS_H
#define CONVOY_TRAINER_APP_LAUNCH_HOSTS_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

#define HOSTS_MAX            1024
#define HOST_NAME_BYTES      256
#define HOSTS_COOLDOWN_MAX_S 3600.0

typedef struct Host {
    char name[HOST_NAME_BYTES];
    int slots;
} Host;
typedef struct HostList {
    int count;
    Host host[HOSTS_MAX];
} HostList;

/* text: what a hosts script printed. A host that comes twice counts once, as it first came;
 * *duplicates counts the others. ERR_DATA naming the line that is no host: then nothing of the list
 * is to be trusted. */
Status hosts_parse(HostList *out, int *duplicates, const char *text, int default_slots);
bool hosts_have(const HostList *list, const char *name);
int hosts_ranks(const HostList *list); /* the sum of slots */
/* those that it lacks, as far as there is room */
void hosts_add(HostList *list, const HostList *more);
void hosts_keep(HostList *list, const HostList *these); /* takes the others out */

typedef struct HostNote { /* what is known of a host that was lost */
    char name[HOST_NAME_BYTES];
    int strikes;
    /* for how long the last strike leaves it out, and the clock_s() of its end */
    double left_out_s, until_s;
} HostNote;
typedef struct HostBook {
    int count;
    HostNote note[HOSTS_MAX];
} HostBook;
/* Returns for how many seconds the host is now left out. */
double hosts_strike(HostBook *book, const char *name, double now, double cooldown_s);
/* Seconds for which it is still left out; 0 for none. */
double hosts_cooldown(const HostBook *book, const char *name, double now);
/* The host is in use again: what is left of its cooldown ends, its strikes stay. */
void hosts_end_cooldown(HostBook *book, const char *name, double now);
/* Forgets the strikes of the hosts that a start has used for ran_s, where that is at least least_s
 * and no less than the host had been left out for. */
void hosts_forgive(HostBook *book, const HostList *used, double ran_s, double least_s);

typedef struct HostsWanted {
    int min_hosts, max_hosts; /* max_hosts 0: no limit */
    int64_t global_batch;     /* must be divisible by the number of ranks; 0: may be anything */
} HostsWanted;
/* The hosts of listed that are not cooling down, those of previous first: the order of
 * preference. */
void hosts_choose(HostList *out, const HostList *listed, const HostList *previous,
                  const HostBook *book, double now);
/* For when those are too few: in out, the hosts of listed that are cooling down and have been for
 * patience_s; the ones with the least left of it first. */
void hosts_choose_cooling(HostList *out, const HostList *listed, const HostBook *book, double now,
                          double patience_s);
/* Cuts list, which is in order of preference, to at most max_hosts and of those to as many as can
 * share the global batch. False where that leaves less than min_hosts; the list is as it was
 * then. */
bool hosts_fit(HostList *list, const HostsWanted *wanted);
#endif
