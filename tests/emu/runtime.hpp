// runtime.hpp - what the parts of the emulated CUDA runtime share: work, streams, events, captures,
// the one lock.
#ifndef CONVOY_TESTS_EMU_RUNTIME_HPP
#define CONVOY_TESTS_EMU_RUNTIME_HPP
#include "emu.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace emu {

using Work = std::function<void()>;

// splitmix64: small, and any seed will do.
struct Random {
    uint64_t state;
    uint64_t next()
    {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    uint64_t below(uint64_t n)
    {
        return next() % n;
    }
};

// A recorded point of a stream. Whoever waits keeps it, however often its event is recorded again.
struct Marker {
    bool done = false;
    double time_ms = 0;
};

struct Node {
    const char *name;
    Work work;
    std::vector<size_t> after; // nodes that must have run, all with smaller numbers
    int priority;              // of the stream on which it was captured
};

// One launch of a graph, as far as it has got.
struct GraphRun {
    std::shared_ptr<const std::vector<Node>> nodes;
    std::vector<bool> done;
    size_t left;
};

enum class Kind { work, record, wait, graph };

struct Item {
    Kind kind;
    const char *name;
    Work work;
    std::shared_ptr<Marker> marker;
    std::shared_ptr<GraphRun> run;
};

struct Capture {
    uint64_t id;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    cudaStream_t origin;
    bool invalidated = false;
    std::vector<Node> nodes;
    std::vector<cudaStream_t> members;
};

// All state there is; made at the first call and never destroyed.
struct Runtime {
    std::recursive_mutex lock;
    Random random{ 0 };
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;
    std::vector<Capture *> captures; // those that go on
    uint64_t captures_begun = 0;
    int open_depth = 0; // of device memory
    struct {
        std::shared_ptr<const std::vector<Node>> nodes;
        unsigned long long flags = 0;
    } instantiated; // the last graph
};
Runtime &runtime();
using Guard = std::lock_guard<std::recursive_mutex>;

[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Keeps e for cudaGetLastError and returns it. With a sentence, which goes to stderr: CUDA's own
// say little.
cudaError_t error(cudaError_t e, const char *format = nullptr, ...)
    __attribute__((format(printf, 2, 3)));

// ---- memory.cpp ----
struct OpenMemory { // device memory is open while one of these lives
    OpenMemory();
    ~OpenMemory();
};
// Checks what a copy or a memset touches: ends with a sentence where the host's and the device's
// are mixed up.
cudaError_t check_range(const void *p, size_t bytes, bool device, const char *what);

// ---- watch.cpp ----
Work watched(Work work); // the same, seen by emu_watch()

// ---- streams.cpp ----
cudaError_t enqueue(cudaStream_t stream, const char *name, Work work);
bool is_live(cudaStream_t stream);
// an error while a capture forbids calls that wait or allocate
cudaError_t sync_call_allowed(const char *what);
void drain(cudaStream_t stream); // runs until the stream is empty
void drain_all();
void drain_blocking(); // the streams that the NULL stream waits for
double now_ms();

// ---- graphs.cpp ----
cudaError_t capture_work(cudaStream_t stream, const char *name, Work work);
cudaError_t capture_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event);
cudaError_t capture_invalidate(Capture *capture, cudaError_t e, const char *what);
Capture *capture_of(uint64_t id); // NULL where it ended

// ---- node_list.cpp ----
void list_nodes(const std::vector<Node> &nodes);

} // namespace emu

struct CUstream_st {
    int priority;
    bool blocking; // waits for the NULL stream and is waited for by it
    std::deque<emu::Item> queue;
    uint64_t rank = 0; // who goes first, drawn anew now and then
    emu::Capture *capture = nullptr;
    std::vector<size_t> frontier; // of the capture: what the stream's next work runs after
};
struct CUevent_st {
    bool timed;
    std::shared_ptr<emu::Marker> marker; // of the last ordinary record
    uint64_t capture_id = 0;             // of the last record, if that was captured
    std::vector<size_t> frontier;
};
struct CUgraph_st {
    std::shared_ptr<const std::vector<emu::Node>> nodes;
};
struct CUgraphExec_st {
    std::shared_ptr<const std::vector<emu::Node>> nodes;
};
#endif
