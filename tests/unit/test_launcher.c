/* test_launcher.c - whether an mpirun is seen at the address that Open MPI gives its ranks. */
#include "base/clock.h"
#include "tests/test.h"
#include "trainer/comm/launcher.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
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
                                 "1.0;tcp://[::1]:22",
                                 "1.0;tcp6://[::1]:22",
                                 "tcp://127.0.0.1:1" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) CHECK(!launcher_answers(none[i], 1));
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
