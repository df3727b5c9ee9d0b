// streams.cpp - streams, events and the scheduler of the emulated device. See emu.h.
#include "runtime.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace emu {

Runtime &runtime()
{
    static Runtime *const r = [] {
        Runtime *made = new Runtime;
        const char *seed = getenv("CONVOY_EMU_SEED");
        made->random.state = seed ? strtoull(seed, nullptr, 10) : 1;
        return made;
    }();
    return *r;
}

double now_ms()
{
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

bool is_live(cudaStream_t stream)
{
    const auto &all = runtime().streams;
    return std::find(all.begin(), all.end(), stream) != all.end();
}

static bool is_live(cudaEvent_t event)
{
    const auto &all = runtime().events;
    return std::find(all.begin(), all.end(), event) != all.end();
}

// ---- the scheduler ----

static bool is_ready(cudaStream_t s)
{
    while (!s->queue.empty() && s->queue.front().kind == Kind::wait &&
           s->queue.front().marker->done)
        s->queue.pop_front();
    return !s->queue.empty() && s->queue.front().kind != Kind::wait;
}

// Of equal chances one stream leads until the ranks are drawn again: long runs of one stream find
// more missing events than fair turns do.
static cudaStream_t choose_stream()
{
    Runtime &r = runtime();
    if (r.random.below(8) == 0)
        for (cudaStream_t s : r.streams) s->rank = r.random.next();
    cudaStream_t best = nullptr;
    for (cudaStream_t s : r.streams)
        if (is_ready(s) && (!best || s->rank > best->rank)) best = s;
    return best;
}

static bool node_is_ready(const GraphRun &run, size_t i)
{
    if (run.done[i]) return false;
    for (size_t before : (*run.nodes)[i].after)
        if (!run.done[before]) return false;
    return true;
}

static void run_one_node(GraphRun &run)
{
    std::vector<size_t> ready;
    for (size_t i = 0; i < run.done.size() && ready.size() < 8; i++)
        if (node_is_ready(run, i)) ready.push_back(i);
    size_t chosen = ready[runtime().random.below(ready.size())];
    (*run.nodes)[chosen].work();
    run.done[chosen] = true;
    run.left--;
}

// Runs one piece of work of one stream; false if none is ready.
static bool step()
{
    cudaStream_t s = choose_stream();
    if (!s) return false;
    Item &item = s->queue.front();
    if (item.kind == Kind::graph) {
        if (item.run->left) run_one_node(*item.run);
        if (!item.run->left) s->queue.pop_front();
        return true;
    }
    Item taken = std::move(item);
    s->queue.pop_front();
    if (taken.kind == Kind::record) {
        taken.marker->done = true;
        taken.marker->time_ms = now_ms();
    } else {
        taken.work();
    }
    return true;
}

static void run_until(const std::function<bool()> &reached)
{
    OpenMemory open;
    while (!reached())
        if (!step()) die("the streams wait for each other for ever");
}

void drain(cudaStream_t stream)
{
    run_until(
        [stream] { return stream->queue.empty() || (is_ready(stream), stream->queue.empty()); });
}

void drain_all()
{
    for (cudaStream_t s : std::vector<cudaStream_t>(runtime().streams)) drain(s);
}

void drain_blocking()
{
    for (cudaStream_t s : std::vector<cudaStream_t>(runtime().streams))
        if (s->blocking) drain(s);
}

// A query lets a little work run, so that polling comes to an end.
static void run_a_little()
{
    OpenMemory open;
    for (uint64_t n = runtime().random.below(64); n > 0; n--)
        if (!step()) return;
}

cudaError_t sync_call_allowed(const char *what)
{
    for (Capture *c : runtime().captures) {
        if (c->mode == cudaStreamCaptureModeRelaxed) continue;
        if (c->mode == cudaStreamCaptureModeThreadLocal && c->thread != std::this_thread::get_id())
            continue;
        return capture_invalidate(c, cudaErrorStreamCaptureUnsupported, what);
    }
    return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, const char *name, Work work)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    work = watched(std::move(work));
    if (!stream) {
        for (Capture *c : r.captures)
            if (c->mode != cudaStreamCaptureModeRelaxed)
                return capture_invalidate(c, cudaErrorStreamCaptureImplicit, name);
        drain_blocking();
        OpenMemory open;
        work();
        return cudaSuccess;
    }
    if (!is_live(stream)) return error(cudaErrorInvalidResourceHandle, "%s: no such stream", name);
    if (stream->capture) return capture_work(stream, name, std::move(work));
    stream->queue.push_back({ Kind::work, name, std::move(work), nullptr, nullptr });
    return cudaSuccess;
}

} // namespace emu

using namespace emu;

extern "C" {

cudaError_t emu_enqueue(cudaStream_t stream, const char *name, void (*run)(const void *),
                        const void *cookie, size_t bytes)
{
    if (bytes > EMU_MAX_COOKIE)
        die("%s: a cookie of %zu bytes, at most %d are possible", name, bytes, EMU_MAX_COOKIE);
    struct Cookie {
        alignas(16) unsigned char bytes[EMU_MAX_COOKIE];
    } copy;
    memcpy(copy.bytes, cookie, bytes);
    return enqueue(stream, name, [run, copy] { run(copy.bytes); });
}

// ---- streams ----

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    if (!out || flags > cudaStreamNonBlocking) return error(cudaErrorInvalidValue);
    *out = new CUstream_st;
    (*out)->priority = priority;
    (*out)->blocking = flags != cudaStreamNonBlocking;
    (*out)->rank = r.random.next();
    r.streams.push_back(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    if (!is_live(stream)) return error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return capture_invalidate(stream->capture, cudaErrorStreamCaptureUnsupported, __func__);
    drain(stream);
    r.streams.erase(std::find(r.streams.begin(), r.streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (!stream) {
        cudaError_t e = sync_call_allowed(__func__);
        if (e == cudaSuccess) drain_blocking();
        return e;
    }
    if (!is_live(stream)) return error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return capture_invalidate(stream->capture, cudaErrorStreamCaptureUnsupported, __func__);
    drain(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (stream && !is_live(stream)) return error(cudaErrorInvalidResourceHandle);
    if (stream && stream->capture)
        return capture_invalidate(stream->capture, cudaErrorStreamCaptureUnsupported, __func__);
    run_a_little();
    return !stream || stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    Guard guard(runtime().lock);
    cudaError_t e = sync_call_allowed(__func__);
    if (e == cudaSuccess) drain_all();
    return e;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    return enqueue(stream, "host function", [function, data] { function(data); });
}

// ---- events ----

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    if (!out) return error(cudaErrorInvalidValue);
    *out = new CUevent_st;
    (*out)->timed = !(flags & cudaEventDisableTiming);
    r.events.push_back(*out);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    Runtime &r = runtime();
    Guard guard(r.lock);
    if (!is_live(event)) return error(cudaErrorInvalidResourceHandle);
    r.events.erase(std::find(r.events.begin(), r.events.end(), event));
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (!is_live(event) || (stream && !is_live(stream)))
        return error(cudaErrorInvalidResourceHandle);
    if (stream && stream->capture) return capture_record(event, stream);
    event->capture_id = 0;
    event->marker = std::make_shared<Marker>();
    if (stream) {
        stream->queue.push_back({ Kind::record, "event", nullptr, event->marker, nullptr });
        return cudaSuccess;
    }
    std::shared_ptr<Marker> marker = event->marker;
    return enqueue(nullptr, "event", [marker] {
        marker->done = true;
        marker->time_ms = now_ms();
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    Guard guard(runtime().lock);
    if (flags) return error(cudaErrorInvalidValue);
    if (!is_live(event) || (stream && !is_live(stream)))
        return error(cudaErrorInvalidResourceHandle);
    if (event->capture_id || (stream && stream->capture)) return capture_wait(stream, event);
    std::shared_ptr<Marker> marker = event->marker;
    if (!marker) return cudaSuccess; // never recorded: nothing to wait for
    if (!stream) run_until([marker] { return marker->done; });
    else stream->queue.push_back({ Kind::wait, "wait", nullptr, marker, nullptr });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    Guard guard(runtime().lock);
    if (!is_live(event)) return error(cudaErrorInvalidResourceHandle);
    if (event->capture_id) return error(cudaErrorCapturedEvent);
    run_a_little();
    return !event->marker || event->marker->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    Guard guard(runtime().lock);
    if (!is_live(event)) return error(cudaErrorInvalidResourceHandle);
    if (event->capture_id) return error(cudaErrorCapturedEvent);
    std::shared_ptr<Marker> marker = event->marker;
    if (marker) run_until([marker] { return marker->done; });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    Guard guard(runtime().lock);
    if (!is_live(start) || !is_live(end) || !start->timed || !end->timed || !start->marker ||
        !end->marker)
        return error(cudaErrorInvalidResourceHandle);
    if (!start->marker->done || !end->marker->done) return cudaErrorNotReady;
    *ms = float(end->marker->time_ms - start->marker->time_ms);
    return cudaSuccess;
}
}
