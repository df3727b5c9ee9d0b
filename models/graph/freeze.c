/* freeze.c - which parameters training leaves as they are; see graph_freeze() in graph.h.
 *
 * A network declares its parameters from the images on, so a stage and all before it are those up
 * to the last one under its name. */
#include "base/str.h"
#include "models/graph/graph.h"
#include "models/graph/graph_internal.h"
#include <stdio.h>
#include <string.h>

#define SEPARATORS ", \t"
enum { ITEM_BYTES = 128 };

static bool is_param(const Graph *g, TensorId id)
{
    return g->tensors[id].role == ROLE_PARAM;
}

/* False: no parameter matches. */
static bool freeze_matches(Graph *g, const char *pattern)
{
    bool any = false;
    for (TensorId id = 0; id < g->tensor_count; id++) {
        if (!is_param(g, id) || !str_matches(pattern, g->tensors[id].name)) continue;
        g->tensors[id].frozen = any = true;
    }
    return any;
}

/* False: there is no such stage or layer. */
static bool freeze_up_to(Graph *g, const char *name)
{
    const size_t length = strlen(name);
    TensorId last = TENSOR_NONE;
    for (TensorId id = 0; id < g->tensor_count; id++)
        if (is_param(g, id) && strncmp(g->tensors[id].name, name, length) == 0 &&
            g->tensors[id].name[length] == '.')
            last = id;
    for (TensorId id = 0; id <= last; id++) g->tensors[id].frozen = is_param(g, id);
    return last != TENSOR_NONE;
}

Status graph_freeze(Graph *g, const char *list)
{
    char item[ITEM_BYTES];
    TRY(graph_status(g));
    if (!list || list[0] == '\0') return OK;
    if (list[strspn(list, SEPARATORS)] == '\0')
        return graph_break(g, fail(ERR_USAGE, "model.freeze: \"%s\" names nothing", list));
    for (const char *at = list + strspn(list, SEPARATORS); *at; at += strspn(at, SEPARATORS)) {
        const size_t length = strcspn(at, SEPARATORS);
        snprintf(item, sizeof item, "%.*s", (int)length, at);
        at += length;
        if (length < sizeof item && (freeze_matches(g, item) || freeze_up_to(g, item))) continue;
        return graph_break(g, fail(ERR_USAGE,
                                   "model.freeze: \"%s\" matches no parameter or stage of this "
                                   "network (convoy inspect model NAME --parameters lists them)",
                                   item));
    }
    for (TensorId id = 0; id < g->tensor_count; id++)
        if (is_param(g, id) && !g->tensors[id].frozen) return OK;
    return graph_break(g, fail(ERR_USAGE, "model.freeze: \"%s\" leaves nothing to train", list));
}
