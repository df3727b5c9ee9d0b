/* pickle.h - reads what Python's pickle wrote as data. A pickle is a program for a stack machine;
 * here it can only build values: nothing that it names is imported, and nothing that it calls is
 * run. Memory grows with the length of the pickle and has a limit; nothing recurses. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_PICKLE_H
#define CONVOY_TRAINER_ENGINE_FILES_PICKLE_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum PickleType {
    PICKLE_NONE, /* or a float */
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_TEXT, /* bytes too, and whole numbers of more than eight bytes */
    PICKLE_TUPLE,
    PICKLE_LIST, /* or a set */
    PICKLE_DICT,
    PICKLE_NAME,  /* a function or class */
    PICKLE_CALL,  /* what a function or class would have made */
    PICKLE_STORED /* kept outside the pickle */
} PickleType;

typedef struct PickleValue {
    PickleType type;
    int name; /* of NAME: what PickleSource.find() made of it */
    union {
        int64_t integer;            /* of BOOL and INT */
        const char *text;           /* in the pickle; any bytes, no end */
        struct PickleValue **items; /* DICT: keys and values by turns; CALL: NAME, arguments */
    };
    size_t count, capacity; /* bytes of text, or items */
} PickleValue;

/* Names that make such a value where they are called; all others have numbers >= 0. */
enum { PICKLE_MAKES_DICT = -1, PICKLE_MAKES_LIST = -2 };

typedef struct PickleSource {
    const uint8_t *at, *end; /* at: set behind the pickle that was read */
    Arena *arena;            /* owns the values */
    /* What a name, as "module.name", is to the caller; fails for one that it does not take. */
    Status (*find)(int *out, void *cookie, const char *name);
    Status (*stored)(void *cookie, const PickleValue *value); /* NULL, or told of each STORED */
    void *cookie;
} PickleSource;

/* One pickle; texts in the value are those of the source. ERR_DATA with the reason, not naming the
 * file. */
Status pickle_read(PickleValue **out, PickleSource *source);
bool pickle_is(const PickleValue *v, const char *text); /* this text; v may be NULL, as below */
/* Item i of a tuple or list, NULL if there is none. */
const PickleValue *pickle_item(const PickleValue *v, size_t i);
/* The value of a key, NULL where v is not a dictionary or lacks it. */
const PickleValue *pickle_get(const PickleValue *v, const char *key);
#endif
