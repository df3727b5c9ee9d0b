/* test_launcher.c - whether an mpirun is seen at the address that Open MPI gives its ranks. */
#include "base/clock.h"
#include "tests/test.h"
#include "trainer/engine/comm/launcher.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Listens on a port of 127.0.0.1. */
static void listen_on_loopback(int *out, int *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&a, bytes) == 0 && listen(fd, 8) == 0);
    REQUIRE(getsockname(fd, (struct sockaddr *)&a, &bytes) == 0);
    *port = ntohs(a.sin_port);
    *out = fd;
}

static bool answers(const char *before, int port, const char *after)
{
    char address[256];
    snprintf(address, sizeof address, "%s%d%s", before, port, after);
    return launcher_answers(address, 1);
}

TEST(mpirun_answers_where_it_listens)
{
    int port = 0, fd = -1;
    listen_on_loopback(&fd, &port);
    CHECK(answers("2635005952.0;tcp://127.0.0.1:", port, ""));
    CHECK(answers("2635005952.0;tcp://127.0.0.1:", port, ";tcp6://[fe80::1]:4"));
    CHECK(answers("prterun-vm-1@0.0;tcp://127.0.0.2,127.0.0.1:", port, ":64,24;tcp6://[::1]:4:64"));
    CHECK(answers("1.0;tcp://no-number,127.0.0.2,127.0.0.1:", port, "")); /* 127.0.0.2 refuses */
    close(fd);
    CHECK(!answers("2635005952.0;tcp://127.0.0.1:", port, ""));
}

TEST(what_is_no_address_does_not_answer)
{
    const char *const none[] = { "",
                                 "1.0;tcp://",
                                 "1.0;tcp://127.0.0.1",
                                 "1.0;tcp://127.0.0.1:",
                                 "1.0;tcp://127.0.0.1:99999",
                                 "1.0;tcp://127.0.0.1:64,24",
                                 "1.0;tcp://[::1]:22",
                                 "1.0;tcp6://[::1]:22",
                                 "tcp://127.0.0.1:1" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) CHECK(!launcher_answers(none[i], 1));
}

/* The address that is found on the command line of a process with these words behind its own. */
static const char *found_behind(const char *first, const char *second, size_t bytes)
{
    static char address[64];
    char first_word[64], second_word[64];
    int ready[2], go[2];
    char byte;
    snprintf(first_word, sizeof first_word, "%s", first);
    snprintf(second_word, sizeof second_word, "%s", second);
    if (pipe(ready) != 0 || pipe(go) != 0) return "no pipe";
    pid_t pid = fork();
    if (pid == 0) {
        dup2(go[0], 0);
        dup2(ready[1], 1);
        execl("/bin/sh", "sh", "-c", "echo; read x", first_word, second_word, (char *)NULL);
        _exit(99);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    const bool found = launcher_of_daemon(pid, address, bytes);
    CHECK(write(go[1], "\n", 1) == 1 && waitpid(pid, NULL, 0) == pid);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
    return found ? address : NULL;
}

TEST(daemons_of_open_mpi_5_have_the_address_among_their_words)
{
    const char *address = found_behind("prte_hnp_uri", "1@0.0;tcp://10.0.0.1:5:24", 64);
    REQUIRE(address != NULL);
    CHECK_STR(address, "1@0.0;tcp://10.0.0.1:5:24");
    CHECK(!found_behind("prte_hnp_uri", "1@0.0;tcp://10.0.0.1:5:24", 25)); /* one too short */
    CHECK(!found_behind("prte_parent_uri", "1@0.0;tcp://10.0.0.1:5:24", 64));
    CHECK(!found_behind("last", "prte_hnp_uri", 64));
}

TEST(silence_ends_with_the_time)
{
    /* One connection fills the queue of a listener that takes none; further ones hang, as packets
     * that vanish. */
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof a;
    char address[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), filler[2];
    REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&a, bytes) == 0 && listen(fd, 0) == 0);
    REQUIRE(getsockname(fd, (struct sockaddr *)&a, &bytes) == 0);
    for (int i = 0; i < 2; i++) {
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(filler[i], (struct sockaddr *)&a, bytes);
    }
    snprintf(address, sizeof address, "1.0;tcp://127.0.0.1:%d", ntohs(a.sin_port));
    double start = clock_s();
    CHECK(!launcher_answers(address, 0.3));
    CHECK(clock_s() - start > 0.25 && clock_s() - start < 5);
    for (int i = 0; i < 2; i++) close(filler[i]);
    close(fd);
}
