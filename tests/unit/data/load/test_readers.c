/* test_readers.c - the ring of bytes, the number of readers and what a reader keeps, by themselves;
 * the reader threads in front of a slow storage are in test_loader.c. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/load/byte_ring.h"
#include "data/load/latency.h"
#include "data/load/reader_count.h"
#include "data/load/readers.h"
#include "tests/test.h"
#include "tests/tools/dataset_check.h"
#include <string.h>

enum { HELD = 40 };

/* Pieces of random sizes taken and given back nearly in order: none may overlap another that is
 * held. */
TEST(pieces_do_not_overlap)
{
    enum { CAPACITY = 1 << 21, ROUNDS = 20000 };
    struct {
        uint8_t *data;
        size_t bytes;
        int64_t piece;
        uint8_t fill;
    } held[HELD] = { { 0 } };
    ByteRing *ring = NULL;
    Rng rng = rng_at(3, RNG_TEST, 0, 0);
    int refused = 0, wrong = 0, given = 0;
    REQUIRE_OK(byte_ring_create(&ring, CAPACITY, HELD));
    for (int i = 0; i < ROUNDS; i++) {
        int k = (int)rng_below(&rng, HELD);
        if (held[k].data) {
            for (size_t b = 0; b < held[k].bytes; b += 61) wrong += held[k].data[b] != held[k].fill;
            wrong += held[k].data[held[k].bytes - 1] != held[k].fill;
            byte_ring_give(ring, held[k].piece);
            held[k].data = NULL;
            given++;
            continue;
        }
        held[k].bytes = 1 + rng_below(&rng, 90000);
        held[k].fill = (uint8_t)i;
        held[k].data = byte_ring_take(ring, held[k].bytes, &held[k].piece);
        if (held[k].data) memset(held[k].data, held[k].fill, held[k].bytes);
        else refused++;
    }
    CHECK_INT(wrong, 0);
    CHECK(refused > 0 && given > ROUNDS / 8); /* both ways were gone */
    byte_ring_destroy(ring);
}

TEST(ring_gives_room_again)
{
    ByteRing *ring = NULL;
    int64_t a = 0, b = 0, c = 0;
    REQUIRE_OK(byte_ring_create(&ring, 1024, 8));
    CHECK(byte_ring_take(ring, 1025, &a) == NULL);
    CHECK(byte_ring_take(ring, 1024, &a) != NULL); /* all of it is one piece */
    byte_ring_give(ring, a);
    CHECK(byte_ring_take(ring, 512, &a) != NULL && byte_ring_take(ring, 512, &b) != NULL);
    CHECK_INT(byte_ring_free(ring), 0);
    CHECK(byte_ring_take(ring, 1, &c) == NULL);
    byte_ring_give(ring, b); /* not the oldest: no room yet */
    CHECK(byte_ring_take(ring, 1, &c) == NULL);
    byte_ring_give(ring, a);
    CHECK_INT(byte_ring_free(ring), 1024);
    CHECK(byte_ring_take(ring, 1024, &c) != NULL);
    byte_ring_destroy(ring);
}

TEST(ring_uses_little_of_its_block_for_little)
{
    ByteRing *ring = NULL;
    int64_t pieces[4];
    REQUIRE_OK(byte_ring_create(&ring, (size_t)64 << 20, 16));
    uint8_t *first = byte_ring_take(ring, 1000, &pieces[0]), *last = first;
    for (int i = 1; i < 20000; i++) {
        if (i >= 4) byte_ring_give(ring, pieces[i % 4]);
        uint8_t *p = byte_ring_take(ring, 1000, &pieces[i % 4]);
        REQUIRE(p != NULL);
        if (p > last) last = p;
    }
    CHECK(last - first < (1 << 20));
    byte_ring_destroy(ring);
}

/* A storage with so much latency and at most so many reads/s, in front of decode threads of so many
 * images/s: what the count comes to. */
static ReaderCount settle(double latency_s, double most_reads, double decode_s, int decoders,
                          int *periods)
{
    ReaderCount c = { .count = READERS_FIRST };
    *periods = 0;
    for (double now = 1; now < 10; now += READER_COUNT_PERIOD_S) {
        double demand = decoders / decode_s, rate = c.count / latency_s;
        if (rate > most_reads) rate = most_reads;
        if (rate > demand) rate = demand;
        double busy = rate / demand, reads = rate * READER_COUNT_PERIOD_S;
        /* Where more are reading than the storage serves, each waits longer. */
        double read_s = rate < demand && rate >= most_reads ? c.count / rate : latency_s;
        ReaderMeasure m = { .now_s = now,
                            .seconds = READER_COUNT_PERIOD_S,
                            .reads = reads,
                            .read_s = reads * read_s,
                            .images = reads,
                            .decode_s = reads * decode_s,
                            .starved_s = (1 - busy) * decoders * READER_COUNT_PERIOD_S,
                            .decoders = decoders };
        if (reader_count_update(&c, &m)) *periods = (int)((now - 1) / READER_COUNT_PERIOD_S) + 1;
    }
    return c;
}

TEST(readers_grow_to_what_latency_asks_for)
{
    static const struct {
        double latency_s, decode_s;
        int decoders, least, most;
    } rows[] = {
        { 0.00006, 0.001, 2, 2, 2 }, /* page cache: the first two are enough */
        { 0.010, 0.001, 1, 10, 16 }, /* 1000/s of 10 ms: 10 under way */
        { 0.060, 0.002, 2, 60, 80 },
        { 0.060, 0.0008, 2, 150, 200 },
        { 0.5, 0.001, 4, READERS_MAX, READERS_MAX },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int periods = 0;
        ReaderCount c =
            settle(rows[i].latency_s, 1e9, rows[i].decode_s, rows[i].decoders, &periods);
        CHECK(c.count >= rows[i].least && c.count <= rows[i].most);
        CHECK(periods <= 10 && !c.saturated);
    }
}

TEST(readers_stop_growing_where_storage_gives_no_more)
{
    int periods = 0;
    ReaderCount c = settle(0.010, 300, 0.001, 2, &periods); /* 300/s where 2000/s are wanted */
    CHECK(c.saturated);
    CHECK(c.count >= 3 && c.count <= 32);
    CHECK(periods < 20);
}

TEST(percentiles)
{
    LatencyCounter counter = { 0 };
    LatencyCounts all = { 0 }, before;
    CHECK_NEAR(latency_counts_percentile(&all, 0.5), 0, 0);
    for (int i = 0; i < 100; i++) latency_counter_add(&counter, 1e-3);
    latency_counter_read(&counter, &all);
    before = all;
    CHECK_NEAR(latency_counts_percentile(&all, 0.99), 1e-3, 0.05e-3);
    for (int i = 1; i <= 1000; i++) latency_counts_add(&all, i * 1e-4);
    latency_counts_subtract(&all, &before);
    CHECK_INT(latency_counts_total(&all), 1000);
    CHECK_NEAR(latency_counts_percentile(&all, 0.5), 0.050, 0.004);
    CHECK_NEAR(latency_counts_percentile(&all, 0.99), 0.099, 0.008);
    CHECK_NEAR(all.seconds, 50.05, 1e-6);
    latency_counts_add(&all, 1e9); /* the last bucket takes all that is longer */
    latency_counts_add(&all, 0);
    CHECK_INT(latency_counts_total(&all), 1002);
}

static int64_t in_order(void *cookie, int64_t number)
{
    (void)cookie;
    return number;
}

/* How often readers allocate in all that they do for so many reads. */
static int64_t allocations_of_reads(const Dataset *d, int64_t reads)
{
    const ReadersOptions o = { .dataset = d,
                               .threads = 1,
                               .ahead_bytes = 8 << 20,
                               .decoders = 1,
                               .reads = reads,
                               .sample_at = in_order };
    Readers *r = NULL;
    int64_t before = mem_allocation_count();
    CHECK_OK(readers_create(&r, &o));
    for (int64_t i = 0; i < reads; i++) {
        Sample sample;
        Status status = ERR_INTERNAL;
        CHECK(readers_take(r, 0, i, &sample, &status));
        CHECK_OK(status);
        readers_release(r, i, 0);
    }
    int64_t used = mem_allocation_count() - before;
    readers_stop(r);
    readers_destroy(r);
    return used;
}

/* A reader's buffer is there before its first sample, however late it starts. */
TEST(reading_allocates_nothing)
{
    Dataset *d = dataset_open_as(dataset_make_tree(), DATA_AUTO);
    REQUIRE(d != NULL);
    CHECK_INT(allocations_of_reads(d, dataset_images(d)), allocations_of_reads(d, 0));
    dataset_close(d);
}
