/* op_embed.h - words come in, as sequences one behind the other, and single places go out.
 *
 * A canvas is a tensor [1,C,T,1]: N sequences of at most S words lie in its T = N S places, one
 * behind the other without padding between; the places behind the last are nobody's. starts i32
 * [N+1] has the first place of each sequence, and behind them the first of nobody's: sequences that
 * a batch lacks are empty and come last. */
#ifndef CONVOY_KERNELS_OP_EMBED_H
#define CONVOY_KERNELS_OP_EMBED_H
#include "kernels/tensor.h"

/* OP_EMBED: y [1,C,T,1], at each place t
 *     y = words[ids[t]] + positions[where[t][1] + offset] (+ segments[segment_ids[t]])
 * and zero at places that are nobody's. Tables are [rows,C]; ids, segment_ids i32 [T], where i32
 * [T,2]: the sequence and the position in it, from 0; nobody's are -1 in all three.
 *
 * OP_EMBED_BWD: the gradients of the tables, zero in rows that nothing took. order i32 [T]: places
 * by their ids, equal ones in their order, nobody's last. Each row is summed in the order of places
 * or of sequences, whatever the team. so_far, in dwords' place: what another op has made of that
 * gradient; this one's is added to it there, whether the instance accumulates or not. */
enum {
    EMBED_IN_WORDS,
    EMBED_IN_POSITIONS,
    EMBED_IN_SEGMENTS /*optional*/,
    EMBED_IN_IDS,
    EMBED_IN_WHERE,
    EMBED_IN_SEGMENT_IDS /*optional, with segments*/
};
enum { EMBED_OUT_Y };
enum {
    EMBED_BWD_IN_DY,
    EMBED_BWD_IN_IDS,
    EMBED_BWD_IN_ORDER,
    EMBED_BWD_IN_STARTS,
    EMBED_BWD_IN_SEGMENT_IDS /*optional, with dsegments*/,
    EMBED_BWD_IN_SO_FAR /*optional; is written*/
};
enum {
    EMBED_BWD_OUT_DWORDS /*optional*/,
    EMBED_BWD_OUT_DPOSITIONS,
    EMBED_BWD_OUT_DSEGMENTS /*optional*/
};
typedef struct EmbedAttr {
    int offset; /* the row of positions that the first word of a sequence has */
} EmbedAttr;

/* OP_PICK: y [count,C] from x [1,C,T,1], the places that the first `count` of rows name; zero where
 * that is not a place of x. rows i32, in increasing order, -1 behind all others. starts is such a
 * tensor too: its first N rows are the first words of sequences.
 * OP_PICK_BWD: dx, zero at places that were not picked. Of equal rows (those of empty sequences,
 * which count nowhere) the first is taken. */
enum { PICK_IN_X, PICK_IN_ROWS };
enum { PICK_OUT_Y };
enum { PICK_BWD_IN_DY, PICK_BWD_IN_ROWS };
enum { PICK_BWD_OUT_DX };
typedef struct PickAttr {
    int64_t count;
} PickAttr;
#endif
