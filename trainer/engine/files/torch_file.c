/* torch_file.c - see torch_file.h.
 *
 * ZIP (from PyTorch 1.6 on). Below one folder: data.pkl, the object; data/KEY, the elements of each
 * storage; byteorder. LEGACY. One pickle after the other: a magic number, 1001, facts of the
 * system, the object, the keys of the storages in order; then of each storage the number of its
 * elements in eight bytes, and these. In the object a tensor is a call with a storage, an offset,
 * sizes and strides; a storage is a type and a key.
 *
 * A tensor that lies in its storage as a row stays there; the elements of any other are copied, in
 * all no more than the file has bytes. Only tensors of the dictionaries that are taken are looked
 * at. */
#include "trainer/engine/files/torch_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/wire.h"
#include "trainer/engine/files/torch_names.h"
#include "trainer/engine/files/weights.h"
#include "trainer/engine/files/zip.h"

enum { TAR_MARK = 257, PROTOCOL = 1001, NESTED = 4, COUNT_BYTES = 8, NAME_MOST = 256 };
enum { TENSORS_MOST = 1 << 20 };
static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
/* Under which keys training programs keep the trained and the averaged weights. */
static const char *const wrappers[] = { "state_dict",  "model", "model_state_dict",
                                        "model_state", "net",   "module" };
static const char *const averages[] = { "state_dict_ema", "model_ema", "ema_state_dict",
                                        "model_ema_state_dict" };
/* Lightning's WeightAveraging keeps them the other way round. */
static const char *const currents[] = { "current_model_state" };

typedef struct Storage {
    const PickleValue *key;
    const TorchName *type;
    const uint8_t *data; /* NULL: the file lacks it */
    size_t bytes;
} Storage;

typedef struct TorchFile {
    uint8_t *bytes;
    size_t size;
    Arena *arena;
    PickleValue *object;
    ZipEntry pickle; /* of a zip archive; data NULL: it has none */
    Storage *storages;
    size_t storage_count, storage_room;
    SafeTensor *tensors;
    size_t tensor_count, tensor_room, copied;
} TorchFile;

bool torch_file_is(const uint8_t *start, size_t bytes)
{
    return (bytes >= 4 && memcmp(start, "PK\3\4", 4) == 0) ||
           (bytes >= 2 && start[0] == 0x80 && start[1] >= 2 && start[1] <= 5) ||
           (bytes >= TAR_MARK + 5 && memcmp(start + TAR_MARK, "ustar", 5) == 0);
}

/* ---- storages ---- */

static bool is_type(const PickleValue *v, PickleType type)
{
    return v && v->type == type;
}

static Status add_storage(void *cookie, const PickleValue *v)
{
    TorchFile *f = cookie;
    const PickleValue *id = v->items[0], *type = pickle_item(id, 1), *key = pickle_item(id, 2);
    const TorchName *name =
        is_type(type, PICKLE_NAME) && type->name >= 0 ? torch_names_at(type->name) : NULL;
    if (!pickle_is(pickle_item(id, 0), "storage") || !name || name->made != TORCH_STORAGE ||
        !is_type(key, PICKLE_TEXT))
        return fail(ERR_DATA, "the pickle is damaged: invalid storage");
    if (!mem_grow(&f->storages, f->storage_count, &f->storage_room, sizeof *f->storages))
        return ERR_MEMORY;
    f->storages[f->storage_count++] = (Storage){ .key = key, .type = name };
    return OK;
}

static int compare_keys(const void *a, const void *b)
{
    const PickleValue *x = ((const Storage *)a)->key, *y = ((const Storage *)b)->key;
    if (x->count != y->count) return x->count < y->count ? -1 : 1;
    return memcmp(x->text, y->text, x->count);
}

static Storage *find_storage(const TorchFile *f, const PickleValue *key)
{
    const Storage wanted = { .key = key };
    if (f->storage_count == 0 || !is_type(key, PICKLE_TEXT)) return NULL;
    return bsearch(&wanted, f->storages, f->storage_count, sizeof wanted, compare_keys);
}

/* The object, and each storage that it names once, in the order of their keys. */
static Status read_object(TorchFile *f, PickleSource *s)
{
    size_t kept = 0;
    s->stored = add_storage;
    TRY(pickle_read(&f->object, s));
    s->stored = NULL;
    if (f->storage_count > 0)
        qsort(f->storages, f->storage_count, sizeof *f->storages, compare_keys);
    for (size_t i = 0; i < f->storage_count; i++) {
        const Storage *last = kept > 0 ? &f->storages[kept - 1] : NULL;
        const bool again = last && compare_keys(last, &f->storages[i]) == 0;
        if (again && last->type != f->storages[i].type)
            return fail(ERR_DATA, "the pickle is damaged: storage with two types");
        if (!again) f->storages[kept++] = f->storages[i];
    }
    f->storage_count = kept;
    return OK;
}

/* ---- containers ---- */

/* Whether a file lies so in the archive's one folder; *rest: of its name behind that. */
static bool is_named(const ZipEntry *e, const char *name, PickleValue *rest)
{
    const char *slash = memchr(e->name, '/', e->name_bytes), *begin = slash ? slash + 1 : e->name;
    const size_t left = e->name_bytes - (size_t)(begin - e->name), n = strlen(name);
    if (left < n || memcmp(begin, name, n) != 0) return false;
    *rest = (PickleValue){ .type = PICKLE_TEXT, .text = begin + n, .count = left - n };
    return name[n - 1] == '/' || left == n;
}

static Status take_object(void *cookie, const ZipEntry *e)
{
    TorchFile *f = cookie;
    PickleValue rest;
    if (is_named(e, "data.pkl", &rest)) f->pickle = *e;
    if (is_named(e, "byteorder", &rest) && (e->bytes != 6 || memcmp(e->data, "little", 6) != 0))
        return fail(ERR_DATA, "saved on a big-endian machine");
    return OK;
}

static Status take_data(void *cookie, const ZipEntry *e)
{
    PickleValue key;
    Storage *s = is_named(e, "data/", &key) ? find_storage(cookie, &key) : NULL;
    if (s) s->data = e->data;
    if (s) s->bytes = e->bytes;
    return OK;
}

static Status read_zip(TorchFile *f, PickleSource *s)
{
    TRY(zip_walk(f->bytes, f->size, take_object, f));
    if (!f->pickle.data)
        return fail(ERR_DATA, "a zip archive without data.pkl, which torch.save writes");
    s->at = f->pickle.data;
    s->end = s->at + f->pickle.bytes;
    TRY(read_object(f, s));
    return zip_walk(f->bytes, f->size, take_data, f);
}

static Status read_legacy(TorchFile *f, PickleSource *s)
{
    PickleValue *v = NULL;
    TRY(pickle_read(&v, s));
    if (!pickle_is(v, magic)) return fail(ERR_DATA, "a pickle, but not one of torch.save");
    TRY(pickle_read(&v, s));
    if (v->type != PICKLE_INT || v->integer != PROTOCOL)
        return fail(ERR_DATA, "PyTorch's old format, but not version %d of it", PROTOCOL);
    TRY(pickle_read(&v, s));
    const PickleValue *little = pickle_get(v, "little_endian");
    if (is_type(little, PICKLE_BOOL) && !little->integer)
        return fail(ERR_DATA, "saved on a big-endian machine");
    TRY(read_object(f, s));
    TRY(pickle_read(&v, s));
    for (size_t i = 0; pickle_item(v, i); i++) {
        Storage *at = find_storage(f, v->items[i]);
        size_t bytes, left = (size_t)(s->end - s->at);
        if (!at || left < COUNT_BYTES ||
            !mem_mul((size_t)wire_load(s->at, COUNT_BYTES), (size_t)at->type->bytes, &bytes) ||
            bytes > left - COUNT_BYTES)
            return fail(ERR_DATA, "storage %zu of %zu is damaged; is the file truncated?", i,
                        v->count);
        at->data = s->at + COUNT_BYTES;
        at->bytes = bytes;
        s->at += COUNT_BYTES + bytes;
    }
    return OK;
}

static Status read_container(TorchFile *f)
{
    PickleSource s = { .at = f->bytes,
                       .end = f->bytes + f->size,
                       .arena = f->arena,
                       .find = torch_names_find,
                       .cookie = f };
    if (f->size >= 4 && memcmp(f->bytes, "PK\3\4", 4) == 0) return read_zip(f, &s);
    if (f->size > 0 && f->bytes[0] == 0x80) return read_legacy(f, &s);
    return fail(ERR_DATA,
                "a tar archive, which PyTorch wrote before version 0.1.10; load it with a "
                "later one: torch.save(model.state_dict(), FILE)");
}

/* ---- tensors ---- */

/* The arguments of the call that makes a tensor, below those that make it a parameter or give it
 * attributes; NULL where v is not a tensor. */
static const PickleValue *find_tensor(const PickleValue *v)
{
    const PickleValue *name = NULL, *args = NULL;
    for (int depth = 0; depth < NESTED; depth++) {
        if (v && v->type != PICKLE_CALL) return NULL;
        if (v) name = v->items[0];
        if (v) args = v->items[1];
        if (!is_type(name, PICKLE_NAME) || name->name < 0 || !is_type(args, PICKLE_TUPLE))
            return NULL;
        const int made = torch_names_at(name->name)->made;
        if (made == TORCH_TENSOR) return args;
        if (made != TORCH_PARAMETER && made != TORCH_TYPED) return NULL;
        name = pickle_item(args, 0);
        v = made == TORCH_PARAMETER ? name : NULL;
        args = made == TORCH_PARAMETER ? NULL : pickle_item(args, 2);
    }
    return NULL;
}

typedef struct View {
    const Storage *storage;
    int64_t offset, sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
    int rank;
} View;

/* Whole numbers >= 0, in a tuple or a torch.Size of one; how many there are, -1: none of these, or
 * too many. */
static int numbers(int64_t out[TENSOR_MAX_RANK], const PickleValue *v)
{
    int count = 0;
    if (is_type(v, PICKLE_CALL)) v = pickle_item(v->items[1], 0);
    if (!is_type(v, PICKLE_TUPLE)) return -1;
    for (const PickleValue *n; (n = pickle_item(v, (size_t)count)); count++) {
        if (count == TENSOR_MAX_RANK || n->type != PICKLE_INT || n->integer < 0) return -1;
        out[count] = n->integer;
    }
    return count;
}

/* Not of a part of a storage, which PyTorch 0.x could keep as such. */
static bool read_view(const TorchFile *f, const PickleValue *args, View *view)
{
    const PickleValue *stored = pickle_item(args, 0), *offset = pickle_item(args, 1),
                      *id = is_type(stored, PICKLE_STORED) ? stored->items[0] : NULL,
                      *part = pickle_item(id, 5);
    view->storage = find_storage(f, pickle_item(id, 2));
    if (!view->storage || !is_type(offset, PICKLE_INT) || offset->integer < 0 ||
        (part && part->type != PICKLE_NONE))
        return false;
    view->offset = offset->integer;
    view->rank = numbers(view->sizes, pickle_item(args, 2));
    return view->rank >= 0 && numbers(view->strides, pickle_item(args, 3)) == view->rank;
}

/* Whether the elements of the view are there; *elements: how many. */
static bool fits(const View *v, size_t *elements)
{
    size_t end = (size_t)v->offset, step, all = 1;
    bool empty = false;
    for (int i = 0; i < v->rank; i++) {
        const size_t size = (size_t)v->sizes[i], stride = (size_t)v->strides[i];
        empty = empty || size == 0;
        if (size > 0 && (!mem_mul(all, size, &all) || !mem_mul(size - 1, stride, &step) ||
                         !mem_add(end, step, &end)))
            return false;
    }
    *elements = empty ? 0 : all;
    if (empty) return all <= INT64_MAX; /* the product of its sizes in any order */
    return v->storage->data && end < v->storage->bytes / (size_t)v->storage->type->bytes &&
           all <= SIZE_MAX / (size_t)v->storage->type->bytes;
}

static bool is_contiguous(const View *v)
{
    int64_t expected = 1;
    bool row = true;
    for (int i = v->rank - 1; i >= 0; expected *= v->sizes[i--])
        row = row && (v->sizes[i] == 1 || v->strides[i] == expected);
    return row;
}

static void copy_elements(uint8_t *to, const View *v, size_t elements)
{
    const size_t bytes = (size_t)v->storage->type->bytes;
    int64_t at[TENSOR_MAX_RANK] = { 0 };
    size_t place = (size_t)v->offset; /* wraps where a size of one has a wild stride */
    for (size_t i = 0; i < elements; i++) {
        memcpy(to + i * bytes, v->storage->data + place * bytes, bytes);
        for (int d = v->rank - 1; d >= 0; d--) {
            place += (size_t)v->strides[d];
            if (++at[d] < v->sizes[d]) break;
            place -= (size_t)at[d] * (size_t)v->strides[d];
            at[d] = 0;
        }
    }
}

static Status read_tensor(TorchFile *f, const PickleValue *args, SafeTensor *t)
{
    View v = { .sizes = { 1 } }; /* a scalar becomes a vector */
    size_t elements = 0;
    if (!read_view(f, args, &v))
        return fail(ERR_DATA, "invalid, or more than %d dimensions", TENSOR_MAX_RANK);
    const TorchName *type = v.storage->type;
    if (type->dtype < 0) return fail(ERR_DATA, "unsupported element type %s", type->name);
    if (!fits(&v, &elements)) return fail(ERR_DATA, "outside the file; is the file truncated?");
    t->desc = tensor_desc((DType)type->dtype, v.rank ? v.rank : 1, v.sizes);
    t->data = f->bytes;
    if (elements == 0) return OK;
    t->data = v.storage->data + (size_t)v.offset * (size_t)type->bytes;
    if (is_contiguous(&v)) return OK;
    const size_t bytes = elements * (size_t)type->bytes;
    if (bytes > f->size - f->copied)
        return fail(ERR_DATA, "an expanded view of fewer elements; save it with .contiguous()");
    f->copied += bytes;
    uint8_t *copy = arena_alloc(f->arena, bytes);
    if (!copy) return ERR_MEMORY;
    copy_elements(copy, &v, elements);
    t->data = copy;
    return OK;
}

static Status add_tensor(TorchFile *f, const PickleValue *key, const PickleValue *args,
                         const char *prefix)
{
    char shown[NAME_MOST];
    if (key->count >= NAME_MOST / 2 || memchr(key->text, 0, key->count) ||
        f->tensor_count == TENSORS_MOST)
        return fail(ERR_DATA, "tensor %zu: invalid name", f->tensor_count);
    if (!mem_grow(&f->tensors, f->tensor_count, &f->tensor_room, sizeof *f->tensors))
        return ERR_MEMORY;
    SafeTensor *t = &f->tensors[f->tensor_count++];
    t->name = arena_printf(f->arena, "%s%.*s", prefix, (int)key->count, key->text);
    if (!t->name) return ERR_MEMORY;
    const Status status = read_tensor(f, args, t);
    str_visible(shown, sizeof shown, t->name);
    return status == OK ? OK : fail_note(status, "tensor %s", shown);
}

static Status add_tensors(TorchFile *f, const PickleValue *dict, const char *prefix)
{
    for (size_t i = 0; dict && i + 1 < dict->count; i += 2) {
        const PickleValue *key = dict->items[i], *args = find_tensor(dict->items[i + 1]);
        if (args && key->type == PICKLE_TEXT) TRY(add_tensor(f, key, args, prefix));
    }
    return OK;
}

/* ---- which dictionary ---- */

#define FIRST_OF(v, keys) first_of(v, keys, sizeof(keys) / sizeof *(keys))

static const PickleValue *first_of(const PickleValue *v, const char *const keys[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_type(pickle_get(v, keys[i]), PICKLE_DICT)) return pickle_get(v, keys[i]);
    return NULL;
}

static Status collect(TorchFile *f)
{
    const PickleValue *raw = f->object, *averaged = NULL, *inner = raw;
    for (int depth = 0; depth < NESTED && inner && !averaged; depth++) {
        const PickleValue *now = FIRST_OF(raw, currents);
        inner = FIRST_OF(raw, wrappers);
        averaged = now ? inner : FIRST_OF(raw, averages);
        if (inner || averaged) raw = now ? now : inner;
    }
    if (raw && raw->type != PICKLE_DICT)
        return fail(ERR_DATA, "not a dictionary of tensors such as model.state_dict()");
    TRY(add_tensors(f, raw, ""));
    TRY(add_tensors(f, averaged, WEIGHTS_EMA_PREFIX));
    return f->tensor_count > 0 ? OK
                               : fail(ERR_DATA, "no named tensors, such as model.state_dict() has");
}

static Status read_file(TorchFile *f, const char *path)
{
    struct stat st;
    const bool large = stat(path, &st) == 0 && (size_t)st.st_size > FS_TEXT_BYTES;
    const int64_t left = large ? process_available_bytes() : 0;
    TRY(fs_read_limited(path, left > 0 ? (size_t)left : SIZE_MAX / 4, &f->bytes, &f->size));
    TRY(arena_create(&f->arena, 0));
    Status status = read_container(f);
    if (status == OK) status = collect(f);
    return status == OK ? OK : fail_note(status, "%s", path);
}

Status torch_file_open(SafeFile **out, const char *path)
{
    TorchFile f = { .bytes = NULL };
    *out = NULL;
    Status status = read_file(&f, path);
    mem_free(f.storages);
    if (status == OK)
        return safetensors_adopt(out, path, f.bytes, f.arena, f.tensors, (int)f.tensor_count);
    mem_free(f.tensors);
    mem_free(f.bytes);
    arena_destroy(f.arena);
    return status;
}
