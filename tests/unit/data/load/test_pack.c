/* convoy pack: complete after any interruption, never a mixture, lossless where it recodes, and bad
 * files stay bad. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/cache/cache.h"
#include "data/decode/seek_index.h"
#include "data/load/dataset_internal.h"
#include "data/load/loader.h"
#include "data/load/pack.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/dataset_check.h"
#include "tests/tools/image_write.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(packing_goes_on_after_an_interruption)
{
    PackReport r;
    char gone[800];
    Dataset *d = dataset_open_as(dataset_make_tree(), DATA_AUTO);
    const char *out = scratch_path(1, "s");
    dataset_pack(d, out, &r);
    int shards = r.shards;
    CHECK(shards >= 3);
    dataset_pack(d, out, &r);
    CHECK_INT(r.kept, shards);
    CHECK_INT(r.images, 0);
    snprintf(gone, sizeof gone, "%s/shard-00001.bin", out);
    CHECK(truncate(gone, 100) == 0);
    CHECK_CONTAINS(dataset_open_error(out, DATA_AUTO),
                   "shard-00001.bin: not a shard of convoy pack, or truncated");
    CHECK(unlink(gone) == 0);
    CHECK_CONTAINS(dataset_open_error(out, DATA_AUTO), "shard-00001.bin of ");
    CHECK_CONTAINS(status_message(), "is missing: packing was interrupted");
    tree_write(out, "shard-00001.bin.tmp", "half", 4);
    dataset_pack(d, out, &r);
    CHECK_INT(r.kept, shards - 1);
    CHECK_INT(r.shards, shards);
    /* Without the common index the shards' own are as good; with a damaged one, too. */
    Dataset *again = dataset_open_as(out, DATA_AUTO);
    datasets_check_equal(d, again, true);
    dataset_close(again);
    tree_write(out, "dataset.index", "junk", 4);
    again = dataset_open_as(out, DATA_AUTO);
    datasets_check_equal(d, again, true);
    dataset_close(again);
    dataset_close(d);
}

TEST(shards_of_other_data_are_not_mixed)
{
    PackReport r;
    const char *tree = dataset_make_tree(), *out = scratch_path(1, "s");
    Dataset *d = dataset_open_as(tree, DATA_AUTO);
    dataset_pack(d, out, &r);
    PackOptions o = dataset_pack_options(out);
    o.shard_bytes *= 2;
    CHECK_STATUS(pack_dataset(d, &o, &r), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "contains shards of other data or options");
    dataset_close(d);
    tree_write(tree, "n0/new.jpg", "x", 1);
    d = dataset_open_as(tree, DATA_AUTO);
    o = dataset_pack_options(out);
    CHECK_STATUS(pack_dataset(d, &o, &r), ERR_USAGE);
    dataset_close(d);
    d = NULL;
    DatasetOptions synthetic = { .format = DATA_SYNTHETIC,
                                 .synthetic_images = 4,
                                 .synthetic_classes = 2 };
    REQUIRE_OK(dataset_open(&d, &synthetic));
    CHECK_STATUS(pack_dataset(d, &o, &r), ERR_DATA);
    CHECK_CONTAINS(status_message(), "stores pixels, not image files");
    dataset_close(d);
}

TEST(bad_files_stay_bad_when_packed)
{
    PackReport r;
    char link[800];
    const char *tree = dataset_make_tree();
    tree_write(tree, "n1/empty.jpg", "", 0);
    tree_write(tree, "n1/text.jpg", "no picture", 10);
    snprintf(link, sizeof link, "%s/n2/gone.jpg", tree);
    REQUIRE(symlink("/nowhere", link) == 0);
    Dataset *d = dataset_open_as(tree, DATA_AUTO);
    dataset_pack(d, scratch_path(1, "s"), &r);
    CHECK_INT(r.unreadable, 2);
    Dataset *shards = dataset_open_as(scratch_paths[1], DATA_AUTO);
    REQUIRE(shards != NULL);
    CHECK_INT(dataset_images(shards), dataset_images(d));
    int bad = 0;
    for (int64_t i = 0; i < dataset_images(d); i++) {
        uint8_t *pixels = NULL;
        int w, h;
        Status before = dataset_decode(d, i, 3, &pixels, &w, &h);
        mem_free(pixels);
        CHECK_STATUS(dataset_decode(shards, i, 3, &pixels, &w, &h), before);
        mem_free(pixels);
        bad += before == ERR_DATA;
    }
    CHECK_INT(bad, 3);
    dataset_close(shards);
    dataset_close(d);
}

static void write_jpeg(const char *tree, const char *name, bool progressive, int channels)
{
    uint8_t pixels[40 * 40 * 3], *bytes = NULL;
    size_t size = 0;
    JpegSettings settings = { .channels = channels, .quality = 80, .progressive = progressive };
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * i / 7);
    REQUIRE_OK(image_encode_jpeg(pixels, 40, 40, &settings, &bytes, &size));
    tree_write(tree, name, bytes, size);
    mem_free(bytes);
}

TEST(progressive_files_can_be_recoded_without_loss)
{
    PackReport r;
    const char *tree = scratch_path(0, "tree");
    write_jpeg(tree, "a/0.jpg", true, 3);
    write_jpeg(tree, "a/1.jpg", false, 3);
    write_jpeg(tree, "a/2.jpg", true, 1);
    tree_write(tree, "a/3.jpg", "\xff\xd8\xff no picture", 14);
    Dataset *d = dataset_open_as(tree, DATA_AUTO);
    PackOptions o = dataset_pack_options(scratch_path(1, "s"));
    o.baseline = true;
    REQUIRE_OK(pack_dataset(d, &o, &r));
    CHECK_INT(r.recoded, 2);
    CHECK_OK(pack_verify(d, &o));
    o.baseline = false; /* then every byte must be equal */
    CHECK_STATUS(pack_verify(d, &o), ERR_DATA);
    CHECK_CONTAINS(status_message(), "[a/0.jpg]: differs from the image that was packed");
    Dataset *shards = dataset_open_as(o.out, DATA_AUTO);
    REQUIRE(shards != NULL);
    for (int64_t i = 0; i < 3; i++) {
        uint8_t *a = NULL, *b = NULL;
        int w = 0, h = 0;
        CHECK_OK(dataset_decode(d, i, 3, &a, &w, &h));
        CHECK_OK(dataset_decode(shards, i, 3, &b, &w, &h));
        CHECK(a && b && w == 40 && memcmp(a, b, (size_t)w * (size_t)h * 3) == 0);
        mem_free(a);
        mem_free(b);
    }
    dataset_close(shards);
    dataset_close(d);
}

TEST(packed_images_have_a_seek_index)
{
    PackReport r;
    const char *tree = scratch_path(0, "tree");
    tree_write_shape(tree, "a/0.jpg", 0, 0, 200);
    tree_write(tree, "a/1.jpg", "no picture", 10);
    Dataset *d = dataset_open_as(tree, DATA_AUTO);
    for (int seek = 0; seek < 2; seek++) {
        PackOptions o = dataset_pack_options(scratch_path(1 + seek, seek ? "with" : "without"));
        o.seek = seek;
        REQUIRE_OK(pack_dataset(d, &o, &r));
        CHECK_OK(pack_verify(d, &o));
        Dataset *shards = dataset_open_as(o.out, DATA_SHARDS);
        REQUIRE(shards != NULL);
        datasets_check_equal(d, shards, true);
        ByteBuf buf = { 0 };
        Sample s;
        const Source *source = dataset_source(shards);
        REQUIRE_OK(source->kind->read(source, 0, &buf, &s));
        SeekIndex view;
        CHECK_INT(s.file.seek != NULL, seek);
        CHECK_INT(s.file.seek && seek_index_view(&view, s.file.seek, s.file.seek_bytes,
                                                 s.file.bytes, s.file.size),
                  seek);
        REQUIRE_OK(source->kind->read(source, 1, &buf, &s));
        CHECK(s.file.seek == NULL && s.file.seek_bytes == 0);
        byte_buf_free(&buf);
        dataset_close(shards);
    }
    dataset_close(d);
}

/* A checksum of some epochs of batches. */
static uint32_t batches(const Dataset *d, int readers, size_t ahead)
{
    Loader *l = NULL;
    Batch b;
    bool more = true;
    uint32_t crc = 0;
    LoaderOptions o = { .view.image_size = 64,
                        .view.channels = 3,
                        .view.augment = AUGMENT_IMAGENET,
                        .seed = 5,
                        .threads = 3,
                        .readers = readers,
                        .read_ahead_bytes = ahead,
                        .slots = 3,
                        .batch = 7,
                        .world = 1,
                        .global_batch = 7,
                        .last_step = 40,
                        .max_bad_fraction = 0 };
    CHECK_OK(loader_create(&l, d, &o));
    while (l && loader_next(l, &b, &more, NULL) == OK && more) {
        crc = crc32c_update(crc, loader_field(&b, "images"), 7 * 64 * 64 * 3);
        CHECK_INT(b.bad, 0);
        loader_release(l, &b);
    }
    CHECK(!more);
    loader_destroy(l);
    return crc;
}

TEST(seek_indices_stay_with_their_files_on_every_way)
{
    PackReport r;
    char name[64];
    const char *tree = scratch_path(0, "tree");
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "%c/%d.jpg", 'a' + i % 2, i);
        tree_write_shape(tree, name, i, (uint32_t)i, 130 + 11 * i);
    }
    Dataset *d = dataset_open_as(tree, DATA_AUTO);
    PackOptions o = dataset_pack_options(scratch_path(1, "s"));
    o.seek = true;
    o.shard_bytes = 100000;
    REQUIRE_OK(pack_dataset(d, &o, &r));
    uint32_t want = batches(d, 0, 0);
    for (int cached = 0; cached < 2; cached++) {
        SampleCache *cache = NULL;
        Dataset *shards = dataset_open_as(o.out, DATA_SHARDS);
        REQUIRE(shards != NULL);
        REQUIRE_OK(cache_create(&cache, 30, (size_t)1 << 22));
        if (cached) dataset_use_cache(shards, DATA_CACHE_RAM, cache, 0);
        CHECK_INT(batches(shards, 5, 0), want);
        CHECK_INT(batches(shards, 5, 40000), want); /* no room in the ring */
        for (int64_t i = 0; i < 30; i++) {
            bool hit = false;
            Sample s;
            SeekIndex view;
            ByteBuf buf = { 0 };
            CHECK_OK(dataset_read(shards, i, 0, &buf, &s, &hit));
            CHECK_INT(hit, cached);
            CHECK(s.file.seek && seek_index_view(&view, s.file.seek, s.file.seek_bytes,
                                                 s.file.bytes, s.file.size));
            byte_buf_free(&buf);
        }
        dataset_close(shards);
        cache_destroy(cache);
    }
    dataset_close(d);
}
