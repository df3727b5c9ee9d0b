/* test_same_data.c - one small set kept in every format: the same images, and the same classes
 * wherever two of them meet, or the one line that refuses (docs/data.md, "The same data in every
 * format"). Which label is right is told by the set itself, not by the rule that is tested. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/load/dataset_internal.h"
#include "data/load/pack.h"
#include "tests/test.h"
#include "tests/tools/container_write.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CLASSES_MAX = 4,
    PER_CLASS = 6,
    IMAGES_MAX = CLASSES_MAX * PER_CLASS,
    SIDE = 8,
    PATH = 1024
};

/* A picture of a class: a file, or a link to the first one there. */
typedef struct Picture {
    const char *name;
    char type; /* of a tar's member: '0' file, '1' hard link, '2' symbolic link */
} Picture;
static const Picture pictures[PER_CLASS] = { { "a.b.c.jpg", '0' }, { "hard.jpg", '1' },
                                             { "soft.jpeg", '2' }, { "t.jpg", '0' },
                                             { "t.png", '0' },     { "z-1.JPG", '0' } };

typedef struct Variant {
    const char *what;
    const char *names[CLASSES_MAX]; /* sorted as text, as folders are */
    int images[CLASSES_MAX];        /* the first so many of the pictures; 0: an empty class */
    int count;
    bool numbers;
} Variant;
static const Variant variants[] = {
    { "words", { "ant", "bee.v1.2", "cat" }, { PER_CLASS, 5, 1 }, 3, false },
    { "words, one empty", { "ant", "bee", "cat", "dog" }, { 6, 0, 3, 1 }, 4, false },
    { "words, the last empty", { "ant", "bee", "cat" }, { 6, 1, 0 }, 3, false },
    { "numbers", { "0", "1", "10", "2" }, { 6, 1, 4, 3 }, 4, true },
    { "numbers with zeros", { "000", "001", "002", "010" }, { 6, 1, 4, 3 }, 4, true },
    { "numbers from 1", { "1", "10", "2", "3" }, { 6, 4, 3, 1 }, 4, true },
    { "numbers, one empty", { "0", "1", "10", "2" }, { 6, 0, 4, 3 }, 4, true },
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

typedef enum Form {
    FOLDER,
    LIST,
    TAR,
    TAR_CLS,
    TAR_NAMED, /* the same with classes.txt; of numbers, where that has a line for each */
    SYNSET,
    TEXT,
    NEITHER,
    SHARDS,
    FORMS
} Form;
static const char *const form_names[FORMS] = {
    "folder", "list", "tar",         "tar.cls", "tar.cls with classes.txt",
    "synset", "text", "label alone", "shards"
};

typedef struct Files { /* of a variant, in every form */
    const Variant *v;
    char at[FORMS][PATH];
    StrBuf list, tar, cls, records[3];
    int samples;
} Files;

static int number_of(const char *name)
{
    int64_t number = -1;
    CHECK(str_to_i64(name, &number));
    return (int)number;
}

/* What a label that stands without a name says of class c. */
static int label_of(const Variant *v, int c)
{
    return v->numbers ? number_of(v->names[c]) : c;
}

/* ---- writing ---- */

static void path_of(char out[PATH], const char *root, const char *name)
{
    ASSERT(snprintf(out, PATH, "%s/%s", root, name) < PATH);
}

static void add_record(StrBuf *out, int label, const char *key, const char *name,
                       const uint8_t *bytes, size_t size)
{
    StrBuf features = { 0 }, example = { 0 };
    tfexample_add_bytes(&features, "image/encoded", bytes, size);
    tfexample_add_int(&features, "image/class/label", label, false);
    if (key) tfexample_add_bytes(&features, key, name, strlen(name));
    tfexample_wrap(&example, &features);
    tfrecord_add(out, example.text, example.length);
    str_free(&features);
    str_free(&example);
}

static void add_picture(Files *f, int c, int i)
{
    const Variant *v = f->v;
    const Picture *p = &pictures[i];
    char name[PATH], first[PATH], file[PATH], to[PATH], text[64];
    uint8_t *bytes = NULL;
    size_t size = 0;
    snprintf(name, sizeof name, "%s/%s", v->names[c], p->name);
    snprintf(first, sizeof first, "%s/%s", v->names[c], pictures[0].name);
    path_of(file, f->at[FOLDER], name);
    path_of(to, f->at[FOLDER], first);
    if (p->type == '0') tree_write_shape(f->at[FOLDER], name, c, (uint32_t)i, SIDE);
    else ASSERT((p->type == '1' ? link(to, file) : symlink(pictures[0].name, file)) == 0);
    ASSERT(fs_read_file(file, &bytes, &size) == OK);
    str_printf(&f->list, "folder/%s,%s\n", name, v->names[c]);
    if (p->type == '0') tar_add(&f->tar, name, bytes, size, TAR_PAX);
    else tar_add_link(&f->tar, name, p->type, p->type == '1' ? first : pictures[0].name, TAR_PAX);
    /* a key holds one image, and ends at the first dot of its name */
    snprintf(text, sizeof text, "%06d.jpg", f->samples);
    tar_add(&f->cls, text, bytes, size, TAR_PAX);
    snprintf(text, sizeof text, "%06d.cls", f->samples++);
    snprintf(name, sizeof name, "%d", label_of(v, c));
    tar_add(&f->cls, text, name, strlen(name), TAR_PAX);
    add_record(&f->records[0], c + 1, "image/class/synset", v->names[c], bytes, size);
    add_record(&f->records[1], c + 1, "image/class/text", v->names[c], bytes, size);
    add_record(&f->records[2], label_of(v, c), NULL, NULL, bytes, size);
    mem_free(bytes);
}

static void put(char at[PATH], const char *root, const char *name, StrBuf *text)
{
    ASSERT(!text->failed);
    tree_write(root, name, text->text, text->length);
    path_of(at, root, name);
    str_free(text);
}

static void write_names(const Files *f)
{
    StrBuf names = { 0 };
    for (int c = 0; c < f->v->count; c++) str_printf(&names, "%s\n", f->v->names[c]);
    tree_write(f->at[TAR_NAMED], "classes.txt", names.text, names.length);
    str_free(&names);
}

static DatasetOptions options_of(const Files *f, Form form)
{
    return (DatasetOptions){ .path = f->at[form], .allow_empty = true, .scan_threads = 1 };
}

static void write_shards(Files *f, const char *root)
{
    Dataset *d = NULL;
    PackReport report;
    const DatasetOptions o = options_of(f, FOLDER);
    path_of(f->at[SHARDS], root, "shards");
    REQUIRE_OK(dataset_open(&d, &o));
    const PackOptions pack = { .out = f->at[SHARDS], .shard_bytes = 1 << 20, .threads = 1 };
    CHECK_OK(pack_dataset(d, &pack, &report));
    dataset_close(d);
}

static void write_files(Files *f, const Variant *v, int number)
{
    static const char *const records[3] = { "synset-00000-of-00001", "text-00000-of-00001",
                                            "label-00000-of-00001" };
    char root[PATH / 2], name[64];
    *f = (Files){ .v = v };
    snprintf(root, sizeof root, "%s/%d", test_scratch(), number);
    path_of(f->at[FOLDER], root, "folder");
    path_of(f->at[TAR_NAMED], root, "named");
    for (int c = 0; c < v->count; c++) {
        char folder[PATH];
        path_of(folder, f->at[FOLDER], v->names[c]);
        ASSERT(fs_make_dirs(folder) == OK);
        snprintf(name, sizeof name, "%s/", v->names[c]);
        tar_add_header(&f->tar, name, '5', 0);
        for (int i = 0; i < v->images[c]; i++) add_picture(f, c, i);
    }
    tar_end(&f->tar);
    tar_end(&f->cls);
    tree_write(f->at[TAR_NAMED], "x.tar", f->cls.text, f->cls.length);
    write_names(f);
    put(f->at[LIST], root, "list.csv", &f->list);
    put(f->at[TAR], root, "tar/tree.tar", &f->tar);
    put(f->at[TAR_CLS], root, "cls/x.tar", &f->cls);
    for (int i = 0; i < 3; i++) put(f->at[SYNSET + i], root, records[i], &f->records[i]);
    write_shards(f, root);
}

/* Lines of classes.txt are labels 0, 1, ..., which numbers need not be. */
static bool exists(const Variant *v, Form form)
{
    return form != TAR_NAMED || !v->numbers;
}

/* ---- what is right ---- */

typedef struct Shown { /* an image: its bytes, and the class it is of */
    uint32_t crc;
    int class; /* of the variant; -1: none */
} Shown;

/* The class of the variant that a class of a list is, -1: none. */
static int class_of(const Variant *v, const ClassList *l, int label)
{
    for (int c = 0; c < v->count; c++)
        if (v->numbers ? number_of(l->names[label]) == number_of(v->names[c])
            : l->named ? strcmp(l->names[label], v->names[c]) == 0
                       : label == c)
            return c;
    return -1;
}

static int by_crc(const void *pa, const void *pb)
{
    const Shown *a = pa, *b = pb;
    if (a->crc != b->crc) return a->crc < b->crc ? -1 : 1;
    return a->class - b->class;
}

/* The images of d, sorted by bytes; labels are places in l. */
static int show(Shown out[IMAGES_MAX], const Variant *v, const Dataset *d, const ClassList *l)
{
    ByteBuf buf = { 0 };
    Sample sample;
    const int images = (int)dataset_images(d);
    ASSERT(images <= IMAGES_MAX);
    for (int i = 0; i < images; i++) {
        const int label = dataset_label(d, i);
        CHECK_OK(dataset_source(d)->kind->read(dataset_source(d), i, &buf, &sample));
        out[i].crc = crc32c_update(0, sample.file.bytes, sample.file.size);
        out[i].class = label < l->count ? class_of(v, l, label) : -1;
    }
    byte_buf_free(&buf);
    qsort(out, (size_t)images, sizeof *out, by_crc);
    return images;
}

static void check(bool right, const Files *f, Form a, Form b, const char *where)
{
    if (!right)
        printf("  %s: %s beside %s, %s: %s\n", f->v->what, form_names[b], form_names[a], where,
               status_message());
    CHECK(right);
}

static void check_shown(const Files *f, Form a, Form b, const char *where, const Dataset *d,
                        const ClassList *l)
{
    Shown want[IMAGES_MAX], have[IMAGES_MAX];
    Dataset *folder = NULL;
    const DatasetOptions o = options_of(f, FOLDER);
    REQUIRE_OK(dataset_open(&folder, &o));
    const ClassList own = dataset_class_list(folder, "");
    const int count = show(want, f->v, folder, &own);
    bool same = show(have, f->v, d, l) == count && count == f->samples;
    for (int i = 0; i < count && same; i++)
        same = want[i].crc == have[i].crc && want[i].class == have[i].class;
    check(same, f, a, b, where);
    dataset_close(folder);
}

/* ---- where two forms meet ---- */

/* Opens b by the classes of a, which it must have, or refuse. */
static void check_pair(const Files *f, Form a, Form b, const char *where, const ClassList *l,
                       const ClassList *own)
{
    Dataset *d = NULL;
    DatasetOptions o = options_of(f, b);
    ClassList like = *l;
    like.owner = "the other";
    o.like = &like;
    /* words beside numbers are known by their places, if there are as many */
    const bool known = f->v->numbers || own->named == l->named || own->count == l->count;
    const Status status = dataset_open(&d, &o);
    if (!known) {
        check(status == ERR_DATA && strstr(status_message(), "they can only be matched"), f, a, b,
              where);
        dataset_close(d);
        return;
    }
    check(status == OK, f, a, b, where);
    if (status == OK) check_shown(f, a, b, where, d, l);
    dataset_close(d);
}

/* Rows of a last layer that learnt the classes of a, for those of b. */
static void check_rows(const Files *f, Form a, Form b, const ClassList *l, const ClassList *own)
{
    int to[64];
    ClassesBy by;
    REQUIRE(own->count <= 64);
    REQUIRE_OK(class_list_match(to, &by, own, l));
    bool right = by != CLASSES_UNKNOWN;
    for (int c = 0; c < own->count && right; c++) {
        const int class = class_of(f->v, own, c);
        if (by == CLASSES_BY_PLACE) right = to[c] == (c < l->count ? c : -1);
        else if (to[c] >= 0) right = class_of(f->v, l, to[c]) == class;
        else
            for (int k = 0; k < l->count && class >= 0; k++)
                right = right && class_of(f->v, l, k) != class;
    }
    check(right, f, a, b, "model.init");
}

static void check_forms(const Files *f, Form a)
{
    Dataset *train = NULL;
    StrBuf names = { 0 };
    const char **lines = NULL;
    ClassList kept;
    const DatasetOptions o = options_of(f, a);
    REQUIRE_OK(dataset_open(&train, &o));
    ClassList l = dataset_class_list(train, "");
    check_shown(f, a, a, "itself", train, &l);
    for (int c = 0; c < l.count; c++) str_printf(&names, "%s%s", c ? "\n" : "", l.names[c]);
    REQUIRE_OK(
        class_list_parse(&kept, &lines, names.text, l.named, "")); /* as a checkpoint has them */
    l.may_lack = kept.may_lack = true;                             /* data.allow_empty_classes */
    for (Form b = FOLDER; b < FORMS; b++) {
        Dataset *val = NULL;
        const DatasetOptions ob = options_of(f, b);
        if (!exists(f->v, b)) continue;
        REQUIRE_OK(dataset_open(&val, &ob));
        const ClassList own = dataset_class_list(val, "");
        check_pair(f, a, b, "train and val", &l, &own);
        check_pair(f, a, b, "eval, and a run that goes on", &kept, &own);
        check_rows(f, a, b, &kept, &own);
        dataset_close(val);
    }
    mem_free(lines);
    str_free(&names);
    dataset_close(train);
}

static void check_variant(int number)
{
    Files f;
    write_files(&f, &variants[number], number);
    for (Form a = FOLDER; a < FORMS; a++)
        if (exists(f.v, a)) check_forms(&f, a);
}

TEST(words_are_the_same_classes_in_every_format)
{
    check_variant(0);
}

TEST(classes_without_images_are_the_same_in_every_format)
{
    check_variant(1);
    check_variant(2);
    check_variant(6);
}

TEST(numbers_are_the_same_classes_in_every_format)
{
    CHECK_INT(VARIANTS, 7);
    for (int i = 3; i < 6; i++) check_variant(i);
}

/* Records give their labels another order than that of the names, and do not begin at 0: numbers of
 * records without names, and rows of weights of others, are those labels. */
TEST(named_records_keep_the_order_of_their_labels)
{
    static const char *const names[] = { "bee", "cat", "ant" };
    for (int first = 0; first < 2; first++) {
        char named[PATH], plain[PATH], root[PATH / 2];
        StrBuf text[2] = { 0 };
        Dataset *d = NULL, *other = NULL;
        snprintf(root, sizeof root, "%s/from%d", test_scratch(), first);
        for (int c = 2; c >= 0; c--) {
            add_record(&text[0], c + first, "image/class/text", names[c], (const uint8_t *)"x", 1);
            add_record(&text[1], c, NULL, NULL, (const uint8_t *)"x", 1);
        }
        put(named, root, "named/x.tfrecord", &text[0]);
        put(plain, root, "plain/x.tfrecord", &text[1]);
        REQUIRE_OK(dataset_open(&d, &(DatasetOptions){ .path = named }));
        const ClassList like = dataset_class_list(d, "the other");
        REQUIRE_OK(dataset_open(&other, &(DatasetOptions){ .path = plain, .like = &like }));
        for (int c = 0; c < 3; c++) {
            CHECK_STR(dataset_class_name(d, c), names[c]);
            CHECK_INT(dataset_label(other, c), c);
            CHECK_STR(dataset_class_name(other, c), names[c]);
        }
        dataset_close(other);
        dataset_close(d);
    }
}

/* Formats that keep names and folders have one order too, so that a run goes on with the same
 * batches. */
TEST(what_has_names_of_files_has_one_order)
{
    for (int i = 0; i < VARIANTS; i++) {
        Files f;
        Dataset *folder = NULL;
        write_files(&f, &variants[i], i);
        const DatasetOptions o = options_of(&f, FOLDER);
        REQUIRE_OK(dataset_open(&folder, &o));
        const ClassList l = dataset_class_list(folder, "");
        for (int k = 0; k < 3; k++) {
            static const Form forms[] = { LIST, TAR, SHARDS };
            SamplePrint want[DATASET_PRINTS] = { 0 }, have[DATASET_PRINTS] = { 0 };
            Dataset *d = NULL;
            DatasetOptions own = options_of(&f, forms[k]);
            ClassList like = l;
            like.may_lack = true;
            own.like = &like;
            REQUIRE_OK(dataset_open(&d, &own));
            CHECK_OK(dataset_prints(folder, want));
            CHECK_OK(dataset_prints(d, have));
            check(memcmp(want, have, sizeof want) == 0, &f, FOLDER, forms[k], "order");
            dataset_close(d);
        }
        dataset_close(folder);
    }
}
