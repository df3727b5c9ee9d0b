/* blocks.c - see blocks.h. The rules are those of fairseq's token_block_utils_fast.pyx, odd corners
 * included: a block that is empty takes any sentence, however long; complete_doc drops documents of
 * one token; a text without any sentence that ends a document is one. */
#include "data/tokens/blocks.h"
#include "base/mem.h"

enum { DOCUMENT_END = 1 }; /* tokens of a sentence that ends a document: </s> */

void blocks_begin(Blocks *b, TokenBreak mode, int64_t most)
{
    ASSERT(most > 0 || mode == BREAK_EOS);
    *b = (Blocks){ .mode = mode, .most = most > 0 ? most : INT32_MAX };
}

/* The block that ends here, of tokens open; the next begins behind it. */
static Status close_block(Blocks *b)
{
    const int64_t start = b->at, tokens = b->open;
    b->at += tokens;
    b->open = 0;
    if (tokens > b->most) {
        if (b->too_long == 0) {
            b->first_sentence = b->sentences;
            b->first_tokens = tokens;
        }
        b->too_long++;
        b->too_long_tokens += tokens;
        return OK;
    }
    const size_t count = (size_t)b->count;
    if (!mem_grow(&b->start, count, &b->start_room, sizeof *b->start) ||
        !mem_grow(&b->length, count, &b->length_room, sizeof *b->length))
        return ERR_MEMORY;
    b->start[count] = start;
    b->length[count] = (int32_t)tokens;
    b->count++;
    return OK;
}

static Status close_document(Blocks *b)
{
    if (b->open > DOCUMENT_END) return close_block(b);
    b->at += b->open; /* nothing, or one token, which is dropped */
    b->open = 0;
    return OK;
}

static Status add_whole(Blocks *b, int64_t tokens)
{
    const bool fits = b->open == 0 || b->open + tokens <= b->most;
    if (!fits) TRY(close_block(b));
    b->open += tokens;
    return OK;
}

static Status add_of_document(Blocks *b, int64_t tokens)
{
    const bool ends = tokens == DOCUMENT_END;
    if (ends || (b->open > 0 && b->open + tokens > b->most)) TRY(close_document(b));
    if (ends) b->at += tokens;
    else b->open += tokens;
    return OK;
}

Status blocks_add(Blocks *b, int64_t tokens)
{
    Status status = OK;
    switch (b->mode) {
    case BREAK_COUNT:
    case BREAK_NONE:
        break;
    case BREAK_COMPLETE:
        status = add_whole(b, tokens);
        break;
    case BREAK_COMPLETE_DOC:
        status = add_of_document(b, tokens);
        break;
    case BREAK_EOS:
        b->sentences++; /* the block that ends is this sentence's */
        b->open = tokens;
        status = close_block(b);
        b->sentences--;
        break;
    }
    b->sentences++;
    b->tokens += tokens;
    return status;
}

Status blocks_end(Blocks *b)
{
    if (b->mode == BREAK_COMPLETE && b->open > 0) return close_block(b);
    if (b->mode == BREAK_COMPLETE_DOC) return close_document(b);
    while (b->mode == BREAK_NONE && b->at < b->tokens) {
        const int64_t left = b->tokens - b->at;
        b->open = left < b->most ? left : b->most;
        TRY(close_block(b));
    }
    return OK;
}

void blocks_free(Blocks *b)
{
    mem_free(b->start);
    mem_free(b->length);
    *b = (Blocks){ 0 };
}
