/* test_hosts.c - lists of hosts: what a hosts script may print, cooldown, the choice. */
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/launch/hosts.h"
#include <stdio.h>
#include <string.h>

static HostList list, previous, chosen;

static Status parse(HostList *out, const char *text)
{
    int duplicates;
    return hosts_parse(out, &duplicates, text, 2);
}

static const char *names(const HostList *l)
{
    static char text[512];
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < l->count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%d", i ? " " : "", l->host[i].name,
                              l->host[i].slots);
    return text;
}

TEST(every_form_of_a_line_is_read)
{
    REQUIRE_OK(parse(&list, "a\nb:4\n  c.d-e slots=8 # fast\n\n# nothing\n10.0.0.1:1\r\nlast"));
    CHECK_STR(names(&list), "a:2 b:4 c.d-e:8 10.0.0.1:1 last:2");
    CHECK_INT(hosts_ranks(&list), 17);
    CHECK(hosts_have(&list, "b") && !hosts_have(&list, "B"));
    REQUIRE_OK(parse(&list, ""));
    CHECK_INT(list.count, 0);
}

TEST(junk_names_its_line_and_leaves_no_list)
{
    static const char *const junk[] = { "a b",         "a:0", "a:x",  "a:",     ":4",   "a slots=0",
                                        "a slots=2 x", "-x",  "a;rm", "a:2000", "$(x)", "a/b" };
    char text[64];
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        snprintf(text, sizeof text, "good\n%s\n", junk[i]);
        CHECK_STATUS(parse(&list, text), ERR_DATA);
        CHECK_CONTAINS(status_message(), "line 2: \"");
        CHECK_CONTAINS(status_message(), junk[i]);
        CHECK_INT(list.count, 0);
    }
}

TEST(ipv6_addresses_are_refused_by_name)
{
    static const char *const addresses[] = { "fe80::1", "::1", "[fe80::1]", "[2001:db8::7]:4",
                                             "fe80::1%eth0 slots=2" };
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        CHECK_STATUS(parse(&list, addresses[i]), ERR_DATA);
        CHECK_CONTAINS(status_message(), "line 1: \"");
        CHECK_CONTAINS(status_message(),
                       "is an IPv6 address, which Open MPI does not accept; use a host name");
    }
    CHECK_OK(parse(&list, "cafe:2"));
}

TEST(a_line_or_a_list_without_end_is_refused)
{
    char *text = mem_alloc(1 << 20);
    REQUIRE(text != NULL);
    memset(text, 'a', 4000);
    text[4000] = '\0';
    CHECK_STATUS(parse(&list, text), ERR_DATA);
    size_t n = 0;
    for (int i = 0; i <= HOSTS_MAX; i++) n += (size_t)snprintf(text + n, 16, "h%d\n", i);
    CHECK_STATUS(parse(&list, text), ERR_DATA);
    CHECK_CONTAINS(status_message(), "more than");
    mem_free(text);
}

TEST(duplicates_count_once)
{
    int duplicates;
    REQUIRE_OK(hosts_parse(&list, &duplicates, "a:1\nb\na:4\na\n", 2));
    CHECK_STR(names(&list), "a:1 b:2");
    CHECK_INT(duplicates, 2);
}

TEST(cooldown_doubles_up_to_an_hour)
{
    static HostBook book;
    CHECK_NEAR(hosts_cooldown(&book, "a", 0), 0, 0);
    CHECK_NEAR(hosts_strike(&book, "a", 100, 60), 60, 1e-9);
    CHECK_NEAR(hosts_cooldown(&book, "a", 110), 50, 1e-9);
    CHECK_NEAR(hosts_cooldown(&book, "a", 161), 0, 0);
    CHECK_NEAR(hosts_cooldown(&book, "b", 110), 0, 0);
    CHECK_NEAR(hosts_strike(&book, "a", 200, 60), 120, 1e-9);
    for (int i = 0; i < 40; i++) hosts_strike(&book, "a", 300, 60);
    CHECK_NEAR(hosts_cooldown(&book, "a", 300), HOSTS_COOLDOWN_MAX_S, 1e-9);
}

TEST(a_host_that_is_needed_comes_back_before_its_cooldown_ends)
{
    static HostBook book;
    REQUIRE_OK(parse(&list, "a\nb\nc"));
    for (int i = 0; i < 5; i++) hosts_strike(&book, "a", 0, 60); /* 960 s */
    for (int i = 0; i < 4; i++) hosts_strike(&book, "b", 0, 60); /* 480 s */
    hosts_strike(&book, "c", 250, 60);
    hosts_strike(&book, "not listed", 0, 60);
    hosts_choose_cooling(&chosen, &list, &book, 299, 300);
    CHECK_INT(chosen.count, 0);
    hosts_choose_cooling(&chosen, &list, &book, 300, 300);
    CHECK_STR(names(&chosen), "b:2 a:2");
    hosts_choose_cooling(&chosen, &list, &book, 300, 0);
    CHECK_STR(names(&chosen), "c:2 b:2 a:2");
    hosts_choose_cooling(&chosen, &list, &book, 481, 300); /* b has cooled */
    CHECK_STR(names(&chosen), "a:2");
    hosts_end_cooldown(&book, "a", 500);
    hosts_end_cooldown(&book, "unknown", 500);
    CHECK_NEAR(hosts_cooldown(&book, "a", 500), 0, 0);
    CHECK_NEAR(hosts_strike(&book, "a", 600, 60), 1920, 1e-9);
}

TEST(strikes_are_forgotten_after_a_start_that_held_out)
{
    static HostBook book;
    REQUIRE_OK(parse(&list, "a\nb\nc"));
    for (int i = 0; i < 5; i++) hosts_strike(&book, "a", 0, 60); /* 960 s */
    for (int i = 0; i < 2; i++) hosts_strike(&book, "b", 0, 60);
    hosts_strike(&book, "d", 0, 60);
    hosts_forgive(&book, &list, 599, 600);
    CHECK_NEAR(hosts_strike(&book, "b", 0, 60), 240, 1e-9);
    hosts_forgive(&book, &list, 700, 600);
    CHECK_NEAR(hosts_strike(&book, "a", 0, 60), 1920, 1e-9); /* it had been left out for longer */
    CHECK_NEAR(hosts_strike(&book, "b", 0, 60), 60, 1e-9);
    CHECK_NEAR(hosts_strike(&book, "d", 0, 60), 120, 1e-9); /* was not in it */
}

TEST(lists_are_joined_and_cut)
{
    REQUIRE_OK(parse(&list, "a\nb:1"));
    REQUIRE_OK(parse(&previous, "b:4\nc"));
    hosts_add(&list, &previous);
    CHECK_STR(names(&list), "a:2 b:1 c:2");
    hosts_keep(&list, &previous);
    CHECK_STR(names(&list), "b:1 c:2");
}

TEST(a_book_that_is_full_forgets_the_oldest)
{
    static HostBook book;
    char name[32];
    for (int i = 0; i <= HOSTS_MAX; i++) {
        snprintf(name, sizeof name, "h%d", i);
        hosts_strike(&book, name, 0, 60);
    }
    CHECK_INT(book.count, HOSTS_MAX);
    CHECK_NEAR(hosts_cooldown(&book, "h0", 1), 0, 0);
    CHECK_NEAR(hosts_cooldown(&book, name, 1), 59, 1e-9);
}

TEST(hosts_of_before_come_first_and_struck_ones_not_at_all)
{
    static HostBook book;
    REQUIRE_OK(parse(&list, "a\nb\nc:4\nd"));
    REQUIRE_OK(parse(&previous, "c\nx\nb"));
    hosts_choose(&chosen, &list, &previous, &book, 0);
    CHECK_STR(names(&chosen), "c:4 b:2 a:2 d:2"); /* slots as listed now */
    hosts_strike(&book, "b", 0, 60);
    hosts_choose(&chosen, &list, &previous, &book, 10);
    CHECK_STR(names(&chosen), "c:4 a:2 d:2");
    hosts_choose(&chosen, &list, &previous, &book, 70);
    CHECK_INT(chosen.count, 4);
}

TEST(as_many_hosts_as_can_share_the_batch)
{
    HostsWanted wanted = { .min_hosts = 2, .max_hosts = 4 };
    REQUIRE_OK(parse(&list, "a:1\nb:1\nc:1\nd:1\ne:1"));
    CHECK(hosts_fit(&list, &wanted));
    CHECK_INT(list.count, 4);
    wanted.global_batch = 9;
    CHECK(hosts_fit(&list, &wanted));
    CHECK_INT(list.count, 3);
    wanted.global_batch = 7;
    CHECK(!hosts_fit(&list, &wanted));
    CHECK_INT(list.count, 3); /* as it was */
    wanted.min_hosts = 1;
    CHECK(hosts_fit(&list, &wanted));
    CHECK_INT(list.count, 1);
    list.count = 0;
    CHECK(!hosts_fit(&list, &wanted));
}
