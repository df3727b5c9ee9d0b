// graphs.cpp - stream capture and graphs of the emulated device: work is recorded with what it must
// run after, and a launch runs it again in another order that these allow.
#include "runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace emu {

Capture *capture_of(uint64_t id)
{
    for (Capture *c : runtime().captures)
        if (c->id == id) return c;
    return nullptr;
}

cudaError_t capture_invalidate(Capture *capture, cudaError_t e, const char *what)
{
    capture->invalidated = true;
    return error(e, "%s is not possible during a capture", what);
}

// Whether CONVOY_EMU_SPOILS names this.
static bool spoils(const char *name)
{
    const char *chosen = getenv("CONVOY_EMU_SPOILS");
    return chosen && strcmp(chosen, name) == 0;
}

cudaError_t capture_work(cudaStream_t stream, const char *name, Work work)
{
    Capture *c = stream->capture;
    if (c->invalidated) return error(cudaErrorStreamCaptureInvalidated);
    if (spoils(name)) c->invalidated = true; // as a library that ignores what it is told
    c->nodes.push_back({ name, std::move(work), stream->frontier, stream->priority });
    stream->frontier.assign(1, c->nodes.size() - 1);
    return cudaSuccess;
}

cudaError_t capture_record(cudaEvent_t event, cudaStream_t stream)
{
    if (stream->capture->invalidated) return error(cudaErrorStreamCaptureInvalidated);
    event->capture_id = stream->capture->id;
    event->frontier = stream->frontier;
    event->marker.reset();
    return cudaSuccess;
}

static void merge(std::vector<size_t> &into, const std::vector<size_t> &what)
{
    for (size_t node : what)
        if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
}

cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event)
{
    if (!event->capture_id)
        return capture_invalidate(stream->capture, cudaErrorStreamCaptureIsolation,
                                  "a wait for an event from outside the capture");
    Capture *c = capture_of(event->capture_id);
    if (!c) return error(cudaErrorCapturedEvent, "a wait for an event of a capture that has ended");
    if (!stream)
        return capture_invalidate(c, cudaErrorStreamCaptureImplicit, "a wait of the NULL stream");
    if (stream->capture && stream->capture != c)
        return capture_invalidate(stream->capture, cudaErrorStreamCaptureMerge,
                                  "joining two captures");
    if (c->invalidated) return error(cudaErrorStreamCaptureInvalidated);
    if (!stream->capture) {
        stream->capture = c;
        stream->frontier.clear();
        c->members.push_back(stream);
    }
    merge(stream->frontier, event->frontier);
    return cudaSuccess;
}

static void reach(const std::vector<Node> &nodes, size_t node, std::vector<bool> &seen)
{
    std::vector<size_t> open(1, node);
    while (!open.empty()) {
        size_t at = open.back();
        open.pop_back();
        if (seen[at]) continue;
        seen[at] = true;
        open.insert(open.end(), nodes[at].after.begin(), nodes[at].after.end());
    }
}

// What other streams recorded last must come before what the origin recorded last.
static const char *find_unjoined(const Capture *c)
{
    std::vector<bool> seen(c->nodes.size(), false);
    for (size_t node : c->origin->frontier) reach(c->nodes, node, seen);
    for (size_t i = 0; i < c->nodes.size(); i++)
        if (!seen[i]) return c->nodes[i].name;
    return nullptr;
}

} // namespace emu

using namespace emu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    if (!stream)
        return error(cudaErrorStreamCaptureUnsupported, "the NULL stream cannot be captured");
    if (!is_live(stream)) return error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return capture_invalidate(stream->capture, cudaErrorInvalidValue, __func__);
    Capture *c =
        new Capture{ ++r.captures_begun, mode, std::this_thread::get_id(), stream, false, {},
                     { stream } };
    r.captures.push_back(c);
    stream->capture = c;
    stream->frontier.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    *out = nullptr;
    if (!is_live(stream) || !stream->capture)
        return error(cudaErrorInvalidValue, "the stream is not capturing");
    Capture *c = stream->capture;
    if (c->origin != stream)
        return capture_invalidate(c, cudaErrorStreamCaptureUnmatched, "an end on another stream");
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return error(cudaErrorStreamCaptureWrongThread);
    const char *unjoined = find_unjoined(c);
    cudaError_t e = cudaSuccess;
    if (c->invalidated) e = error(cudaErrorStreamCaptureInvalidated);
    else if (unjoined)
        e = error(cudaErrorStreamCaptureUnjoined,
                  "the capture ends with \"%s\" on a stream that was not joined", unjoined);
    if (e == cudaSuccess) list_nodes(c->nodes);
    if (e == cudaSuccess)
        *out = new CUgraph_st{ std::make_shared<const std::vector<Node>>(std::move(c->nodes)) };
    for (cudaStream_t s : c->members)
        if (is_live(s) && s->capture == c) s->capture = nullptr;
    r.captures.erase(std::find(r.captures.begin(), r.captures.end(), c));
    delete c;
    return e;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *out)
{
    Guard guard(runtime().lock);
    if (stream && !is_live(stream)) return error(cudaErrorInvalidResourceHandle);
    if (!stream || !stream->capture) *out = cudaStreamCaptureStatusNone;
    else
        *out = stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    if (nodes) return error(cudaErrorNotSupported, "cudaGraphGetNodes: only the count is emulated");
    *count = graph->nodes->size();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    *out = nullptr;
    if (!graph || (flags & ~(unsigned long long)cudaGraphInstantiateFlagUseNodePriority))
        return error(cudaErrorInvalidValue);
    if (spoils("instantiate")) return error(cudaErrorMemoryAllocation);
    runtime().instantiated = { graph->nodes, flags };
    *out = new CUgraphExec_st{ graph->nodes };
    return cudaSuccess;
}

int emu_graph_priorities(int *out, int most)
{
    const Runtime &r = runtime();
    if (!(r.instantiated.flags & cudaGraphInstantiateFlagUseNodePriority)) return 0;
    int count = 0;
    for (const Node &node : *r.instantiated.nodes)
        if (count < most) out[count++] = node.priority;
    return count;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (!exec || (stream && !is_live(stream))) return error(cudaErrorInvalidResourceHandle);
    return cudaSuccess; // there is nowhere to upload to
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (!exec || !stream || !is_live(stream)) return error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return capture_invalidate(stream->capture, cudaErrorNotSupported, __func__);
    auto run = std::make_shared<GraphRun>(GraphRun{
        exec->nodes, std::vector<bool>(exec->nodes->size(), false), exec->nodes->size() });
    stream->queue.push_back({ Kind::graph, "graph", nullptr, nullptr, run });
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}
}
