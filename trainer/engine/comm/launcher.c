/* launcher.c - see launcher.h. */
#include "trainer/engine/comm/launcher.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES_MAX = 8, TEXT_BYTES = 512 };

static int read_addresses(struct sockaddr_in out[ADDRESSES_MAX], const char *text)
{
    static const char scheme[] = ";tcp://";
    const char *start = strstr(text, scheme);
    char list[TEXT_BYTES], *rest = NULL;
    int64_t port;
    if (!start) return 0;
    start += strlen(scheme);
    snprintf(list, sizeof list, "%.*s", (int)strcspn(start, ";"), start);
    char *colon = strchr(list, ':');
    if (!colon) return 0;
    *colon++ = '\0';
    colon[strcspn(colon, ":")] = '\0'; /* Open MPI 5: widths of networks follow */
    if (!str_to_i64(colon, &port) || port < 1 || port > 65535) return 0;
    int count = 0;
    for (char *host = strtok_r(list, ",", &rest); host && count < ADDRESSES_MAX;
         host = strtok_r(NULL, ",", &rest)) {
        out[count] =
            (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
        if (inet_pton(AF_INET, host, &out[count].sin_addr) == 1) count++;
    }
    return count;
}

bool launcher_of_daemon(pid_t daemon, char *out, size_t bytes)
{
    static const char key[] = "prte_hnp_uri";
    char path[64];
    uint8_t *words = NULL;
    size_t length = 0, address = 0;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)daemon);
    if (fs_read_file(path, &words, &length) != OK) return false;
    for (size_t w = 0; w < length && !address; w += strlen((const char *)words + w) + 1)
        if (strcmp((const char *)words + w, key) == 0) address = w + sizeof key;
    const char *found = address < length && address ? (const char *)words + address : "";
    const bool fits = *found && strlen(found) < bytes;
    if (fits) memcpy(out, found, strlen(found) + 1);
    mem_free(words);
    return fits;
}

/* A connection under construction, -1 where it cannot even begin. */
static int begin_connection(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static bool is_connected(int fd)
{
    int problem = 0;
    socklen_t bytes = sizeof problem;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &bytes) == 0 && problem == 0;
}

/* Until one of them stands, all have failed, or the time is over. poll() passes over those whose fd
 * is -1. */
static bool await_connection(struct pollfd *waiting, int count, double seconds)
{
    int open = 0;
    for (int i = 0; i < count; i++) open += waiting[i].fd >= 0;
    for (double end = clock_s() + seconds, now = clock_s(); open > 0 && now < end;
         now = clock_s()) {
        if (poll(waiting, (nfds_t)count, (int)((end - now) * 1e3) + 1) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < count; i++) {
            if (waiting[i].fd < 0 || !waiting[i].revents) continue;
            if (is_connected(waiting[i].fd)) return true;
            close(waiting[i].fd);
            waiting[i].fd = -1;
            open--;
        }
    }
    return false;
}

bool launcher_answers(const char *address, double seconds)
{
    struct sockaddr_in to[ADDRESSES_MAX];
    struct pollfd waiting[ADDRESSES_MAX];
    int count = read_addresses(to, address);
    for (int i = 0; i < count; i++)
        waiting[i] = (struct pollfd){ .fd = begin_connection(&to[i]), .events = POLLOUT };
    bool answered = await_connection(waiting, count, seconds);
    for (int i = 0; i < count; i++)
        if (waiting[i].fd >= 0) close(waiting[i].fd);
    return answered;
}

void launcher_end_daemon(void)
{
    static const char *const daemons[] = { "orted\n", "prted\n" };
    char path[64], name[32] = { 0 };
    pid_t parent = getppid();
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)parent);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n = read(fd, name, sizeof name - 1);
    close(fd);
    for (size_t i = 0; n > 0 && i < sizeof daemons / sizeof daemons[0]; i++)
        if (strcmp(name, daemons[i]) == 0) kill(parent, SIGTERM);
}
