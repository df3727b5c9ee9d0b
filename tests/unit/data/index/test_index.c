/* ImageFolder scanning: torchvision's order and extensions, symlinks, and errors that name the
 * folder. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/load/dataset_internal.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static Dataset *open_tree(const char *path)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .format = DATA_AUTO, .role = DATA_TRAIN };
    CHECK_STATUS(dataset_open(&d, &o), OK);
    return d;
}

static void check_sample(const Dataset *d, int64_t id, const char *ending, int label)
{
    char text[2048];
    dataset_describe_sample(d, id, text, sizeof text);
    size_t length = strlen(text), tail = strlen(ending);
    CHECK_STR(length >= tail ? text + length - tail : text, ending);
    CHECK_INT(dataset_label(d, id), label);
}

static const char *open_error(const char *path, DataFormat format, Status want)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .format = format, .role = DATA_TRAIN };
    CHECK_STATUS(dataset_open(&d, &o), want);
    CHECK(d == NULL);
    dataset_close(d);
    return status_message();
}

TEST(order_is_that_of_torchvision)
{
    const char *root = test_scratch();
    const char *const files[] = { "b/z.jpg",          "b/a.JPEG",         "b/sub/0.png",
                                  "b/sub-x/1.Jpg",    "a/._a.jpg",        "a/B.jpg",
                                  "a/a.jpg",          "a/note.txt",       "a/x.webp",
                                  "C/deep/er/q.jpeg", "b/sub/deep/2.png", "ignored.jpg" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) tree_write(root, files[i], "x", 1);
    Dataset *d = open_tree(root);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_classes(d), 3);
    CHECK_STR(dataset_class_name(d, 0), "C");
    CHECK_STR(dataset_class_name(d, 1), "a");
    CHECK_STR(dataset_class_name(d, 2), "b");
    CHECK_STR(dataset_format_name(d), "imagefolder");
    REQUIRE(dataset_images(d) == 8);
    CHECK_INT(dataset_class_images(d, 1), 2);
    check_sample(d, 0, "/C/deep/er/q.jpeg", 0);
    check_sample(d, 1, "/a/B.jpg", 1);
    check_sample(d, 2, "/a/a.jpg", 1);
    check_sample(d, 3, "/b/a.JPEG", 2);
    check_sample(d, 4, "/b/z.jpg", 2);
    check_sample(d, 5, "/b/sub/0.png", 2);
    check_sample(d, 6, "/b/sub-x/1.Jpg", 2); /* '-' sorts before '/' in the whole path */
    check_sample(d, 7, "/b/sub/deep/2.png", 2);
    dataset_close(d);
}

/* .git at the root, as a class, and below one; torchvision takes them all. */
TEST(hidden_folders_are_passed_over)
{
    static const char *const files[] = { ".git/0.jpg",
                                         ".ipynb_checkpoints/b/0.jpg",
                                         "a/.ipynb_checkpoints/0.jpg",
                                         "a/.x.png",
                                         "a/0.jpg",
                                         "b/..c/1.jpg",
                                         "b/d/.e/2.jpg",
                                         "b/0.jpg" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tree_write(test_scratch(), files[i], "x", 1);
    Dataset *d = open_tree(test_scratch());
    REQUIRE(d != NULL);
    CHECK_INT(dataset_classes(d), 2);
    REQUIRE(dataset_images(d) == 2);
    check_sample(d, 0, "/a/0.jpg", 0);
    check_sample(d, 1, "/b/0.jpg", 1);
    dataset_close(d);
}

TEST(empty_classes_are_named_together)
{
    char path[1100], name[64];
    snprintf(path, sizeof path, "%s/tree", test_scratch());
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "c%d/%s", i, i == 4 ? "0.jpg" : "readme.txt");
        tree_write(path, name, "x", 1);
    }
    CHECK_CONTAINS(open_error(path, DATA_AUTO, ERR_DATA),
                   "/tree: 8 of 9 class folders have no .jpg, .jpeg, .jpe, .jfif or .png file: c0, "
                   "c1, c2, c3, "
                   "c5, ... (data.allow_empty_classes");
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .allow_empty = true, .index = test_scratch() };
    REQUIRE_OK(dataset_open(&d, &o));
    CHECK_INT(dataset_classes(d), 9);
    CHECK_STR(dataset_class_name(d, 5), "c5");
    CHECK_INT(dataset_class_images(d, 5), 0);
    CHECK_INT(dataset_images(d), 1);
    check_sample(d, 0, "/c4/0.jpg", 4);
    dataset_close(d);
    o.allow_empty = false; /* nor is the list that was kept taken then */
    CHECK_STATUS(dataset_open(&d, &o), ERR_DATA);
    snprintf(path, sizeof path, "%s/tree/c4/0.jpg", test_scratch());
    REQUIRE(unlink(path) == 0);
    o = (DatasetOptions){ .path = path, .allow_empty = true };
    *strrchr(path, '/') = '\0';
    *strrchr(path, '/') = '\0';
    CHECK_STATUS(dataset_open(&d, &o), ERR_DATA);
    CHECK_CONTAINS(status_message(), "/tree: contains no images");
}

/* The parent of both sets, given instead of one of them. */
TEST(a_folder_of_sets_is_refused)
{
    static const struct {
        const char *files[5], *advice; /* NULL: they are classes */
    } cases[] = {
        { { "train/a/0.jpg", "train/b/0.jpg", "val/a/0.jpg", "val/b/0.jpg" },
          ": its folders are sets, not classes; name each set separately: '@/train' (train), "
          "'@/val' (val)" },
        { { "TRAIN/a/0.jpg", "Test/a/0.jpg", "Validation/a/0.jpg", ".git/x/0.jpg" },
          " '@/TRAIN' (train), '@/Validation' (val)" },
        { { "training/a/0.jpg", "test/a/0.jpg" }, " '@/training' (train), '@/test' (val)" },
        { { "valid/a/0.jpg" }, "name each set separately: '@/valid' (val)" },
        { { "train/0.jpg", "val/a/0.jpg" }, NULL },
        { { "train/a/0.jpg", "val/a/0.jpg", "bus/a/0.jpg" }, NULL },
        { { "train/a/0.jpg", "trainer/a/0.jpg" }, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[1100];
        StrBuf want = { 0 };
        snprintf(path, sizeof path, "%s/%zu", test_scratch(), i);
        for (int f = 0; cases[i].files[f]; f++) tree_write(path, cases[i].files[f], "x", 1);
        if (!cases[i].advice) {
            dataset_close(open_tree(path));
            continue;
        }
        for (const char *p = cases[i].advice; *p; p++)
            if (*p == '@') str_add(&want, path);
            else str_add_n(&want, p, 1);
        CHECK_CONTAINS(open_error(path, DATA_AUTO, ERR_DATA), want.text);
        str_free(&want);
    }
}

/* A socket, a terminal, /dev/null, a pipe without and with a writer. */
TEST(what_is_no_file_is_a_bad_sample)
{
    char root[700], path[1100];
    snprintf(root, sizeof root, "%s/t", test_scratch());
    tree_write(root, "c/z.jpg", "x", 1);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int side = open(root, O_RDONLY | O_DIRECTORY), s = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(side >= 0 && s >= 0); /* by the descriptor: an address is short */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/c/0socket.jpg", side);
    REQUIRE(bind(s, (struct sockaddr *)&address, sizeof address) == 0);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    snprintf(path, sizeof path, "%s/c/1terminal.jpg", root);
    REQUIRE(symlink(ptsname(master), path) == 0);
    snprintf(path, sizeof path, "%s/c/2null.jpg", root);
    REQUIRE(symlink("/dev/null", path) == 0);
    snprintf(path, sizeof path, "%s/c/3pipe.jpg", root);
    REQUIRE(mkfifo(path, 0600) == 0);
    snprintf(path, sizeof path, "%s/c/4pipe.jpg", root);
    REQUIRE(mkfifo(path, 0600) == 0);
    int writer = open(path, O_RDWR | O_NONBLOCK);
    Dataset *d = open_tree(root);
    REQUIRE(d != NULL);
    for (int64_t id = 0; id + 1 < dataset_images(d); id++) {
        ByteBuf buf = { 0 };
        Sample sample;
        const Source *source = dataset_source(d);
        CHECK_STATUS(source->kind->read(source, id, &buf, &sample), ERR_DATA);
        CHECK_CONTAINS(status_message(), "cannot be read: not a regular file");
        byte_buf_free(&buf);
    }
    CHECK_INT(dataset_images(d), 6);
    dataset_close(d);
    close(writer);
    close(master);
    close(s);
    close(side);
}

TEST(class_names_are_text)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/tree", test_scratch());
    tree_write(path, "caf\xC3\xA9/0.jpg", "x", 1);
    Dataset *d = open_tree(path);
    REQUIRE(d != NULL);
    CHECK_STR(dataset_class_name(d, 0), "caf\xC3\xA9");
    dataset_close(d);
    tree_write(path, "caf\xE9/0.jpg", "x", 1);
    CHECK_CONTAINS(open_error(path, DATA_AUTO, ERR_DATA), "/tree: the name of class 1 (caf");
    CHECK_CONTAINS(status_message(), ") is not UTF-8 text");
}

TEST(symlinks_are_followed)
{
    char root[1024], link[1100];
    snprintf(root, sizeof root, "%s/tree", test_scratch());
    tree_write(root, "real/0.jpg", "x", 1);
    tree_write(test_scratch(), "elsewhere/1.jpg", "x", 1);
    tree_write(test_scratch(), "elsewhere/2.jpg", "x", 1);
    snprintf(link, sizeof link, "%s/alias", root);
    REQUIRE(symlink("../elsewhere", link) == 0);
    snprintf(link, sizeof link, "%s/real/inner", root);
    REQUIRE(symlink("../../elsewhere", link) == 0);
    snprintf(link, sizeof link, "%s/real/file.jpg", root);
    REQUIRE(symlink("../../elsewhere/1.jpg", link) == 0);
    Dataset *d = open_tree(root);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_classes(d), 2);
    CHECK_INT(dataset_class_images(d, 0), 2);
    CHECK_INT(dataset_class_images(d, 1), 4);
    check_sample(d, 3, "/real/file.jpg", 1);
    check_sample(d, 5, "/real/inner/2.jpg", 1);
    dataset_close(d);
}

TEST(symlink_loops_are_left_out)
{
    /* To itself, to the root, to the folder above, and through a folder outside; c/again is reached
     * twice but no loop.
     */
    static const char *const links[][2] = {
        { "tree/c/loop", "." },           { "tree/c/up", ".." },
        { "tree/c/sub/back", ".." },      { "tree/c/out", "../../outside" },
        { "outside/in", "../tree/c" },    { "tree/c/again", "../../other" },
        { "tree/c/twice", "../../other" }
    };
    char root[1100], link[1100];
    tree_write(test_scratch(), "tree/c/0.jpg", "x", 1);
    tree_write(test_scratch(), "tree/c/sub/1.jpg", "x", 1);
    tree_write(test_scratch(), "outside/2.jpg", "x", 1);
    tree_write(test_scratch(), "other/3.jpg", "x", 1);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        snprintf(link, sizeof link, "%s/%s", test_scratch(), links[i][0]);
        REQUIRE(symlink(links[i][1], link) == 0);
    }
    snprintf(root, sizeof root, "%s/tree", test_scratch());
    snprintf(link, sizeof link, "%s/stderr", test_scratch());
    int saved = dup(STDERR_FILENO);
    REQUIRE(saved >= 0 && freopen(link, "w", stderr));
    Dataset *d = open_tree(root);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    REQUIRE(d != NULL);
    static const char *const want[] = { "/c/0.jpg", "/c/again/3.jpg", "/c/out/2.jpg",
                                        "/c/sub/1.jpg", "/c/twice/3.jpg" };
    CHECK_INT(dataset_classes(d), 1);
    CHECK_INT(dataset_images(d), 5);
    for (int64_t i = 0; i < 5 && i < dataset_images(d); i++) check_sample(d, i, want[i], 0);
    dataset_close(d);
    uint8_t *text = NULL;
    size_t bytes = 0;
    REQUIRE_OK(fs_read_file(link, &text, &bytes));
    CHECK_CONTAINS((const char *)text,
                   "/tree/c/loop: a link to a folder that contains it; skipped\n");
    CHECK_CONTAINS((const char *)text, "/tree/c/up: a link");
    CHECK_CONTAINS((const char *)text, "/tree/c/sub/back: a link");
    CHECK_CONTAINS((const char *)text, "/tree/c/out/in: a link");
    CHECK(!strstr((const char *)text, "again"));
    mem_free(text);
}

TEST(errors_name_the_folder)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/none", test_scratch());
    CHECK_CONTAINS(open_error(path, DATA_AUTO, ERR_DATA), "/none: no such folder");
    tree_write(test_scratch(), "file", "x", 1);
    snprintf(path, sizeof path, "%s/file", test_scratch());
    CHECK_CONTAINS(open_error(path, DATA_AUTO, ERR_DATA),
                   "/file: neither a folder nor a file of a known format");
    snprintf(path, sizeof path, "%s/flat", test_scratch());
    tree_write(path, "0.jpg", "x", 1);
    CHECK_CONTAINS(open_error(path, DATA_AUTO, ERR_DATA), "/flat: contains no class folders");
    snprintf(path, sizeof path, "%s/tree", test_scratch());
    tree_write(path, "full/0.jpg", "x", 1);
    tree_write(path, "empty/readme.txt", "x", 1);
    CHECK_CONTAINS(
        open_error(path, DATA_AUTO, ERR_DATA),
        "/tree: 1 of 2 class folders have no .jpg, .jpeg, .jpe, .jfif or .png file: empty (data.");
    CHECK_CONTAINS(open_error("", DATA_AUTO, ERR_USAGE), "no dataset folder");
    CHECK_CONTAINS(open_error(NULL, DATA_IMAGEFOLDER, ERR_USAGE), "no dataset folder");
}

TEST(many_samples_find_their_labels)
{
    char path[64];
    for (int i = 0; i < 600; i++) {
        snprintf(path, sizeof path, "k%02d/%03d.png", i % 17, i);
        tree_write(test_scratch(), path, "x", 1);
    }
    Dataset *d = open_tree(test_scratch());
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), 600);
    int64_t id = 0;
    for (int c = 0; c < dataset_classes(d); c++)
        for (int64_t i = 0; i < dataset_class_images(d, c); i++)
            CHECK_INT(dataset_label(d, id++), c);
    CHECK_INT(id, 600);
    dataset_close(d);
}

TEST(synthetic_needs_no_folder)
{
    Dataset *d = NULL;
    DatasetOptions o = { .format = DATA_SYNTHETIC, .synthetic_images = 10, .synthetic_classes = 4 };
    REQUIRE_OK(dataset_open(&d, &o));
    int64_t total = 0;
    for (int c = 0; c < 4; c++) total += dataset_class_images(d, c);
    CHECK_INT(total, 10);
    CHECK_INT(dataset_class_images(d, 1), 3);
    CHECK_INT(dataset_class_images(d, 2), 2);
    CHECK_INT(dataset_label(d, 7), 3);
    CHECK_STR(dataset_class_name(d, 3), "3");
    uint8_t *a = NULL;
    int width = 0, height = 0;
    CHECK_OK(dataset_decode(d, 7, 3, &a, &width, &height));
    CHECK(a && width > 0 && height > 0);
    mem_free(a);
    dataset_close(d);
    o.synthetic_classes = 0;
    CHECK_STATUS(dataset_open(&d, &o), ERR_USAGE);
}
