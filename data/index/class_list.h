/* class_list.h - which class of one list is which of another: the one rule for it, wherever two
 * lists meet (sets for training and validation, what a checkpoint has learnt, rows of a last
 * layer).
 *
 * 1. Where all classes of both are whole numbers, by number: labels without names, and names such
 *    as 7, 007 and 7.0, in whatever order they stand.
 * 2. Else, where both have names, by name.
 * 3. Else one has numbers alone and the other has words: number n is taken for the n-th word, if
 *    there are as many. Where a word is the number of another place, or numbers in the words stand
 *    in another order than the words (class_10, class_2), nothing is known. */
#ifndef CONVOY_DATA_INDEX_CLASS_LIST_H
#define CONVOY_DATA_INDEX_CLASS_LIST_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct ClassList {
    const char *const *names; /* [count]; of numbers alone their digits */
    const int64_t *images;    /* [count]; NULL: each has some */
    int count;
    bool named;         /* the names are more than the numbers of their places */
    bool may_lack;      /* others need not have all of these */
    bool closed;        /* numbers beyond these are refused too */
    const char *owner;  /* whose they are, for messages */
    const char *remedy; /* what to do about a class that is none of these; NULL: nothing */
} ClassList;

/* Cuts text, one name per line, in place into a list. named: those of folders or texts, as which
 * 0, 1, 2, ... count too. *names: what holds them, mem_free. ERR_MEMORY. */
Status class_list_parse(ClassList *out, const char ***names, char *text, bool named,
                        const char *owner);
/* The first class of a list of numbers that stands at the place of another number; -1: none does,
 * or they are not numbers. */
int class_list_misplaced(const ClassList *l);
/* Weights that know no classes take labels for the order of their own: a warning where a set's
 * class folders are numbers in another order. path: of the weights. */
void class_list_tell_order(const ClassList *l, const char *path);

typedef enum ClassesBy {
    CLASSES_BY_NUMBER,
    CLASSES_BY_NAME,
    CLASSES_BY_PLACE,
    CLASSES_UNKNOWN
} ClassesBy;
/* to[c]: the place in `in` of class c of `of`, -1 where it is none of those. ERR_MEMORY. */
Status class_list_match(int *to, ClassesBy *by, const ClassList *of, const ClassList *in);
/* The same for a set whose labels are to be places in `in`: ERR_DATA names the first class with
 * images that is none of those, or one of those that it lacks, and says what to do. One warning
 * where classes are taken by their places. */
Status class_list_match_set(int *to, const ClassList *of, const ClassList *in);
#endif
