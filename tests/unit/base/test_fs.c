/* Files and folders: whole reads, atomic writes, links, listings, and errors that name the path. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A path in the scratch folder; four may be in use at a time. */
static const char *in_scratch(const char *name)
{
    static char paths[4][1200];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_scratch(), name);
    return path;
}

static void check_content(const char *path, const char *want)
{
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    CHECK_INT(bytes, strlen(want));
    CHECK_STR((const char *)data, want);
    mem_free(data);
}

TEST(written_files_read_back)
{
    const char *path = in_scratch("file");
    CHECK(!fs_exists(path));
    CHECK_OK(fs_write_atomic(path, "one", 3));
    check_content(path, "one");
    CHECK_OK(fs_write_atomic(path, "", 0));
    check_content(path, "");
    CHECK(fs_exists(path) && !fs_is_dir(path));
}

TEST(large_and_unsized_files)
{
    const size_t n = 3000001;
    uint8_t *data = mem_alloc(n), *back;
    size_t bytes;
    REQUIRE(data);
    for (size_t i = 0; i < n; i++) data[i] = (uint8_t)(i * 31 >> 3);
    CHECK_OK(fs_write_atomic(in_scratch("large"), data, n));
    REQUIRE_OK(fs_read_file(in_scratch("large"), &back, &bytes));
    CHECK(bytes == n && memcmp(data, back, n) == 0 && back[n] == 0);
    mem_free(back);
    mem_free(data);
    /* says 0 bytes, holds several thousand */
    REQUIRE_OK(fs_read_file("/proc/self/maps", &back, &bytes));
    CHECK(bytes > 1000 && strlen((const char *)back) == bytes);
    mem_free(back);
}

/* A file size limit stands in for a full disk: write() takes the first part and then fails. */
static void check_too_large(const char *path)
{
    static const char data[5000] = "new";
    struct rlimit before, tight;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    tight = before;
    tight.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    Status status = fs_write_atomic(path, data, sizeof data);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_STATUS(status, ERR_IO);
    CHECK_CONTAINS(status_message(), "file: cannot write: File too large");
}

TEST(failed_write_leaves_the_old_file)
{
    const char *path = in_scratch("folder/file");
    REQUIRE_OK(fs_make_dirs(in_scratch("folder")));
    CHECK_OK(fs_write_atomic(path, "old", 3));
    check_too_large(path);
    mem_fail_at(1);
    CHECK_STATUS(fs_write_atomic(path, "new", 3), ERR_MEMORY);
    CHECK_OK(fs_make_dirs(in_scratch("taken")));
    /* rename() onto a folder fails */
    CHECK_STATUS(fs_write_atomic(in_scratch("taken"), "new", 3), ERR_IO);
    CHECK_CONTAINS(status_message(), "taken: cannot replace");
    check_content(path, "old");
    char **names;
    int64_t count;
    static const char *const folders[] = { "folder", "" };
    /* no temporary file is left: there are file, and folder and taken */
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(fs_list(in_scratch(folders[i]), &names, &count));
        CHECK_INT(count, i + 1);
        mem_free(names);
    }
}

/* What may never end is not begun, and nobody waits for the other end of a FIFO. */
TEST(only_files_are_read_and_up_to_a_limit)
{
    uint8_t *data = NULL;
    size_t bytes;
    CHECK_STATUS(fs_read_file("/dev/zero", &data, &bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), "/dev/zero: cannot read: not a regular file");
    REQUIRE(mkfifo(in_scratch("fifo"), 0600) == 0);
    CHECK_STATUS(fs_read_file(in_scratch("fifo"), &data, &bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), "fifo: cannot read: not a regular file");
    REQUIRE_OK(fs_write_atomic(in_scratch("file"), "12345", 5));
    CHECK_STATUS(fs_read_limited(in_scratch("file"), 4, &data, &bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), "file: too large: 5 bytes; the limit for this file is 4");
    CHECK_STATUS(fs_read_limited("/proc/self/maps", 100, &data, &bytes), ERR_DATA); /* says 0 */
    CHECK_CONTAINS(status_message(), "/proc/self/maps: cannot read: File too large");
    CHECK(data == NULL);
    REQUIRE_OK(fs_read_limited(in_scratch("file"), 5, &data, &bytes));
    CHECK_INT(bytes, 5);
    mem_free(data);
}

TEST(errors_name_the_path)
{
    uint8_t *data = NULL;
    size_t bytes;
    char **names = NULL;
    int64_t count;
    CHECK_STATUS(fs_read_file(in_scratch("none"), &data, &bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), in_scratch("none: cannot open: No such file"));
    CHECK_STATUS(fs_read_file(test_scratch(), &data, &bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), test_scratch());
    CHECK_CONTAINS(status_message(), ": cannot read: Is a directory");
    CHECK_STATUS(fs_list(in_scratch("none"), &names, &count), ERR_DATA);
    CHECK_CONTAINS(status_message(), in_scratch("none"));
    CHECK_STATUS(fs_write_atomic(in_scratch("none/file"), "x", 1), ERR_IO);
    CHECK_CONTAINS(status_message(), in_scratch("none/file"));
    CHECK_STATUS(fs_sync_dir(in_scratch("none")), ERR_IO);
    CHECK(data == NULL && names == NULL);
}

TEST(folders_are_made_with_their_parents)
{
    CHECK_OK(fs_make_dirs(in_scratch("a/b//c/")));
    CHECK(fs_is_dir(in_scratch("a/b/c")));
    CHECK_OK(fs_make_dirs(in_scratch("a/b/c")));
    CHECK_OK(fs_write_atomic(in_scratch("plain"), "x", 1));
    CHECK_STATUS(fs_make_dirs(in_scratch("plain/inside")), ERR_IO);
    CHECK_CONTAINS(status_message(), "plain");
}

TEST(symlinks_are_replaced)
{
    char target[100] = "";
    const char *link_path = in_scratch("latest");
    CHECK_OK(fs_replace_symlink("step-1", link_path));
    CHECK_OK(fs_replace_symlink("step-2", link_path));
    ssize_t n = readlink(link_path, target, sizeof target - 1);
    CHECK(n > 0);
    CHECK_STR(target, "step-2");
    CHECK(!fs_exists(link_path)); /* follows the link, which leads nowhere yet */
    CHECK_OK(fs_make_dirs(in_scratch("step-2")));
    CHECK(fs_is_dir(link_path));
}

TEST(writing_goes_through_symlinks)
{
    struct stat st;
    REQUIRE_OK(fs_make_dirs(in_scratch("there")));
    CHECK_OK(fs_write_atomic(in_scratch("there/file"), "old", 3));
    REQUIRE(symlink("there/file", in_scratch("near")) == 0);
    REQUIRE(symlink("near", in_scratch("far")) == 0);
    CHECK_OK(fs_check_writable(in_scratch("far")));
    CHECK_OK(fs_write_atomic(in_scratch("far"), "new", 3));
    check_content(in_scratch("there/file"), "new");
    CHECK(lstat(in_scratch("far"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(in_scratch("near"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(fs_same_file(in_scratch("far"), in_scratch("there/file")));
    CHECK(!fs_same_file(in_scratch("far"), test_scratch()) &&
          !fs_same_file(in_scratch("none"), in_scratch("none")));

    REQUIRE(symlink("there/later", in_scratch("ahead")) == 0); /* leads nowhere yet */
    CHECK_OK(fs_write_atomic(in_scratch("ahead"), "first", 5));
    check_content(in_scratch("there/later"), "first");
    REQUIRE(symlink("ring", in_scratch("ring")) == 0);
    CHECK_STATUS(fs_write_atomic(in_scratch("ring"), "x", 1), ERR_IO);
    CHECK_CONTAINS(status_message(), "ring: cannot write: Too many levels");
}

TEST(what_lies_in_a_folder_is_known_before_it_is_there)
{
    char path[1300], root[PATH_MAX];
    snprintf(path, sizeof path, "%s/set/a/b", test_scratch());
    CHECK_OK(fs_make_dirs(path));
    snprintf(path, sizeof path, "%s/set", test_scratch());
    REQUIRE(realpath(path, root) != NULL);
    snprintf(path, sizeof path, "%s/set/a/b", test_scratch());
    CHECK(fs_lies_in(path, root) && fs_lies_in(root, root) && !fs_lies_in(root, path));
    snprintf(path, sizeof path, "%s/set/none/of/these/", test_scratch());
    CHECK(fs_lies_in(path, root));
    snprintf(path, sizeof path, "%s/settle", test_scratch());
    CHECK(!fs_lies_in(path, root) && fs_lies_in(path, test_scratch()));
    snprintf(path, sizeof path, "%s/link", test_scratch());
    CHECK(symlink("set/a", path) == 0);
    snprintf(path, sizeof path, "%s/link/run", test_scratch());
    CHECK(fs_lies_in(path, root) && !fs_lies_in(path, "none"));
    CHECK(chdir(root) == 0);
    CHECK(fs_lies_in("runs/x", root) && fs_lies_in(".", root) && !fs_lies_in("../x", root));
    CHECK(fs_lies_in("x", ".") && fs_lies_in("a/../x", ".") && fs_lies_in("/none", "/"));
}

static const char *own_temporary(const char *name)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s.tmp-%ld", in_scratch(name), (long)getpid());
    return path;
}

/* Whoever can write to a folder can guess the name: nothing that lies there is written to. */
TEST(planted_temporaries_are_not_written_to)
{
    REQUIRE_OK(fs_write_atomic(in_scratch("victim"), "precious", 8));
    for (int i = 0; i < 3; i++) {
        const char *temporary = own_temporary("out");
        if (i == 0) REQUIRE(symlink("victim", temporary) == 0);
        if (i == 1) REQUIRE(link(in_scratch("victim"), temporary) == 0);
        if (i == 2) REQUIRE(mkfifo(temporary, 0600) == 0); /* nobody reads: would be waited for */
        CHECK_OK(fs_write_atomic(in_scratch("out"), "new", 3));
        check_content(in_scratch("out"), "new");
        check_content(in_scratch("victim"), "precious");
        CHECK(!fs_exists(temporary));
    }
    REQUIRE(mkdir(own_temporary("out"), 0700) == 0);
    CHECK_STATUS(fs_write_atomic(in_scratch("out"), "newer", 5), ERR_IO);
    CHECK_CONTAINS(status_message(), "out: cannot write: Is a directory");
    check_content(in_scratch("out"), "new");
}

/* Only root can make a link that belongs to another. */
TEST(links_of_other_users_are_not_followed)
{
    enum { NOBODY = 65534 };
    const char *planted = in_scratch("planted");
    int fd;
    REQUIRE_OK(fs_write_atomic(in_scratch("victim"), "precious", 8));
    REQUIRE(symlink("victim", in_scratch("own")) == 0);
    CHECK_OK(fs_open(&fd, in_scratch("own"), O_WRONLY | O_APPEND));
    close(fd);
    REQUIRE(symlink("victim", planted) == 0);
    if (lchown(planted, NOBODY, NOBODY) != 0) {
        test_skip("only root can give a link away");
        return;
    }
    CHECK_STATUS(fs_open(&fd, planted, O_WRONLY | O_TRUNC), ERR_IO);
    CHECK_CONTAINS(status_message(), "planted is a symbolic link of another user");
    CHECK_INT(fd, -1);
    CHECK_STATUS(fs_write_atomic(planted, "new", 3), ERR_IO);
    CHECK_CONTAINS(status_message(), "planted is a symbolic link of another user");
    CHECK_STATUS(fs_check_writable(planted), ERR_IO);
    REQUIRE(symlink("planted", in_scratch("far")) == 0); /* nor behind one of our own */
    CHECK_STATUS(fs_open(&fd, in_scratch("far"), O_WRONLY | O_TRUNC), ERR_IO);
    check_content(in_scratch("victim"), "precious");
    /* whose folder it is may say where its names lead */
    REQUIRE_OK(fs_make_dirs(in_scratch("theirs")));
    REQUIRE(symlink("../victim", in_scratch("theirs/link")) == 0);
    REQUIRE(lchown(in_scratch("theirs/link"), NOBODY, NOBODY) == 0);
    REQUIRE(lchown(in_scratch("theirs"), NOBODY, NOBODY) == 0);
    CHECK_OK(fs_write_atomic(in_scratch("theirs/link"), "new", 3));
    check_content(in_scratch("victim"), "new");
}

TEST(descriptors_have_names)
{
    static const char *const folders[] = { "/proc/self/fd", "/dev/fd" };
    for (int i = 0; i < 2; i++) {
        int ends[2], fd = -1;
        char path[64], text[8] = "";
        REQUIRE(pipe(ends) == 0);
        snprintf(path, sizeof path, "%s/%d", folders[i], ends[1]);
        CHECK_OK(fs_open(&fd, path, O_WRONLY | O_APPEND | O_CREAT));
        CHECK(fs_write_all(fd, "said", 4));
        CHECK_INT(read(ends[0], text, sizeof text - 1), 4);
        CHECK_STR(text, "said");
        close(fd);
        close(ends[0]);
        close(ends[1]);
    }
}

/* The reader holds the FIFO open, so that neither side waits. */
TEST(what_is_no_file_is_written_in_place)
{
    const char *path = in_scratch("fifo");
    struct stat st;
    char text[8] = "";
    REQUIRE(mkfifo(path, 0600) == 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    CHECK_OK(fs_check_writable(path));
    CHECK_OK(fs_write_atomic(path, "table", 5));
    CHECK_INT(read(reader, text, sizeof text - 1), 5);
    CHECK_STR(text, "table");
    CHECK(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    close(reader);
}

/* A node of our own, never the real one. */
TEST(a_device_is_written_in_place)
{
    const char *full = in_scratch("full");
    struct stat st;
    int probe =
        mknod(full, S_IFCHR | 0600, makedev(1, 7)) == 0 ? open(full, O_WRONLY | O_CLOEXEC) : -1;
    if (probe < 0) {
        test_skip("no device node can be made here, or none be opened");
        return;
    }
    close(probe);
    CHECK_STATUS(fs_write_atomic(full, "x", 1), ERR_IO);
    CHECK_CONTAINS(status_message(), "full: cannot write: No space left");
    CHECK(lstat(full, &st) == 0 && S_ISCHR(st.st_mode));
}

/* Written behind what is there, and the file stays the same one. */
static void write_behind_output(const char *path)
{
    fflush(stdout);
    int before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(before >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    close(file);
    bool said = fs_write_all(STDOUT_FILENO, "said ", 5);
    Status status = fs_write_atomic(path, "table ", 6);
    said = said && fs_write_all(STDOUT_FILENO, "more", 4);
    dup2(before, STDOUT_FILENO);
    close(before);
    CHECK(said);
    CHECK_OK(status);
    check_content(path, "said table more");
}

TEST(what_is_standard_output_is_written_in_place)
{
    write_behind_output(in_scratch("out"));
}

/* Where standard input is closed, what is opened next has its number, which is one like others. */
TEST(a_descriptor_may_be_zero)
{
    const char *path = in_scratch("file");
    char **names = NULL;
    int64_t count = 0;
    int before = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    CHECK_OK(fs_write_atomic(path, "one", 3));
    check_content(path, "one");
    CHECK_OK(fs_list(test_scratch(), &names, &count));
    CHECK_INT(count, 1);
    CHECK_OK(fs_check_writable(path));
    CHECK_OK(fs_sync_dir(test_scratch()));
    write_behind_output(in_scratch("out"));
    CHECK(fcntl(STDIN_FILENO, F_GETFD) < 0); /* none of these left it open */
    if (before >= 0) dup2(before, STDIN_FILENO);
    close(before);
    mem_free(names);
}

TEST(what_could_not_be_written_is_known_before)
{
    CHECK_OK(fs_check_writable(in_scratch("new")));
    CHECK(!fs_exists(in_scratch("new")));
    CHECK_STATUS(fs_check_writable(test_scratch()), ERR_IO);
    CHECK_STATUS(fs_check_writable(in_scratch("none/new")), ERR_IO);
    CHECK_CONTAINS(status_message(), "none/new: cannot write: No such file");
}

TEST(listings_are_sorted)
{
    static const char *const made[] = { "b", "a10", ".hidden", "a9", "B" }, *const want[] = {
        ".hidden", "B", "a10", "a9", "b"
    };
    char **names;
    int64_t count;
    REQUIRE_OK(fs_list(test_scratch(), &names, &count));
    CHECK_INT(count, 0);
    mem_free(names);
    for (int i = 0; i < 5; i++) CHECK_OK(fs_write_atomic(in_scratch(made[i]), "", 0));
    REQUIRE_OK(fs_list(test_scratch(), &names, &count));
    CHECK_INT(count, 5);
    for (int i = 0; i < 5 && i < count; i++) CHECK_STR(names[i], want[i]);
    mem_free(names);
}

TEST(join)
{
    static const char *const rows[][3] = {
        { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "", "b", "b" }, { "/", "b", "/b" }
    };
    for (int i = 0; i < 4; i++) {
        char *path = fs_join(rows[i][0], rows[i][1]);
        CHECK_STR(path, rows[i][2]);
        mem_free(path);
    }
    mem_fail_at(1);
    CHECK(fs_join("a", "b") == NULL);
}
