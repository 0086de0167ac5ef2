// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>
#include <utility>

#include "entry.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

struct Executable {
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    for (const std::shared_ptr<Stream>& lane : lanes) lane->close();
  }

  Graph graph;
  std::vector<std::shared_ptr<Stream>> lanes;
  std::set<std::size_t> crossed;  // nodes that another lane waits for
};

// Guarded by books().
struct Graphs {
  Table<cudaGraph_t, Graph> graphs{"graph", "graphs"};
  Table<cudaGraphExec_t, Executable> executables{"executable graph", "executable graphs"};
  std::vector<std::shared_ptr<Capture>> capturing;
};
Graphs& graphs() {
  static Graphs* const graphs = new Graphs;
  return *graphs;
}

Capture::Member& member(Stream& stream) { return stream.capture->members.at(stream.shared_from_this()); }

// Whether the origin waits for everything: no node is left out of what its front comes after.
bool all_joined(const Capture& capture) {
  std::set<std::size_t> reached;
  std::vector<std::size_t> open;
  for (const auto& [stream, of] : capture.members) {
    if (stream.get() == capture.origin) open.assign(of.front.begin(), of.front.end());
  }
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    const std::set<std::size_t>& after = capture.graph.nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return reached.size() == capture.graph.nodes.size();
}

void end(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& [stream, of] : capture->members) stream->capture = nullptr;
  capture->members.clear();
  std::vector<std::shared_ptr<Capture>>& all = graphs().capturing;
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
}

cudaError_t begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const std::shared_ptr<Stream> stream = find_stream(handle, "cudaStreamBeginCapture");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (handle == nullptr || handle == cudaStreamLegacy) return cudaErrorStreamCaptureUnsupported;
  const Books lock(books());
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream.get();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  join_capture(*stream, capture, {});
  graphs().capturing.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::shared_ptr<Stream> stream = find_stream(handle, "cudaStreamEndCapture");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const Books lock(books());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  if (capture->origin != stream.get()) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  const bool joined = all_joined(*capture);
  end(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = graphs().graphs.add(std::make_shared<Graph>(std::move(capture->graph)));
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t handle) {
  *executable = nullptr;
  auto made = std::make_shared<Executable>();
  {
    const Books lock(books());
    const std::shared_ptr<Graph> graph = graphs().graphs.find(handle, "cudaGraphInstantiate");
    if (graph == nullptr) return cudaErrorInvalidValue;
    made->graph = *graph;
  }
  for (const Node& node : made->graph.nodes) {
    for (const std::size_t before : node.after) {
      if (made->graph.nodes[before].lane != node.lane) made->crossed.insert(before);
    }
  }
  for (const GraphLane& lane : made->graph.lanes) {
    made->lanes.push_back(Stream::open(lane.device, lane.priority, lane.sms));
  }
  const Books lock(books());
  *executable = graphs().executables.add(std::move(made));
  return cudaSuccess;
}

// One task of the launching stream; behind the previous launch of the same graph, since the lanes are queues.
void launch(const Executable& executable, Stream& stream) {
  const GraphLaunchScope scope;
  const std::shared_ptr<Mark> start = mark(stream, true);
  for (const std::shared_ptr<Stream>& lane : executable.lanes) wait_for(*lane, start, false);
  std::map<std::size_t, std::shared_ptr<Mark>> done;
  for (std::size_t i = 0; i < executable.graph.nodes.size(); ++i) {
    const Node& node = executable.graph.nodes[i];
    Stream& lane = *executable.lanes[node.lane];
    for (const std::size_t before : node.after) {
      if (executable.graph.nodes[before].lane != node.lane) wait_for(lane, done.at(before), false);
    }
    node.operation(lane);
    if (executable.crossed.count(i) != 0) done[i] = mark(lane, false);
  }
  for (const std::shared_ptr<Stream>& lane : executable.lanes) wait_for(stream, mark(*lane, false), false);
}

cudaError_t launch_graph(cudaGraphExec_t handle, cudaStream_t on) {
  const std::shared_ptr<Stream> stream = find_stream(on, "cudaGraphLaunch");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->device() != current_device()) violation("cudaGraphLaunch on a stream of another device than the current");
  std::shared_ptr<Executable> executable;
  {
    const Books lock(books());
    executable = graphs().executables.find(handle, "cudaGraphLaunch");
    if (executable == nullptr) return cudaErrorInvalidValue;
    if (stream->capture != nullptr) violation("cudaGraphLaunch into a capture is not emulated");
  }
  return submit(*stream, [executable](Stream& s) { launch(*executable, s); });
}

// There is nothing to upload.
cudaError_t upload_graph(cudaGraphExec_t handle, cudaStream_t on) {
  if (find_stream(on, "cudaGraphUpload") == nullptr) return cudaErrorInvalidResourceHandle;
  const Books lock(books());
  return graphs().executables.find(handle, "cudaGraphUpload") == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}

template <class Handles, class Handle>
cudaError_t destroy(Handles& handles, Handle handle, const char* call) {
  const Books lock(books());
  return handles.take(handle, call) == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

cudaError_t add_node(Stream& stream, Operation operation) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  Capture::Member& of = member(stream);
  capture.graph.nodes.push_back({std::move(operation), of.front, of.lane});
  of.front = {capture.graph.nodes.size() - 1};
  return cudaSuccess;
}

void join_capture(Stream& stream, const std::shared_ptr<Capture>& capture, const std::set<std::size_t>& front) {
  if (stream.capture == nullptr) {
    stream.capture = capture;
    capture->members[stream.shared_from_this()].lane = capture->graph.lanes.size();
    capture->graph.lanes.push_back({stream.device(), stream.priority(), stream.sms()});
  }
  member(stream).front.insert(front.begin(), front.end());
}

const std::set<std::size_t>& front_of(Stream& stream) { return member(stream).front; }

void drop_capture(Stream& stream) {
  const Books lock(books());
  if (stream.capture == nullptr) return;
  const std::shared_ptr<Capture> capture = stream.capture;
  capture->invalid = true;
  end(capture);
}

bool is_unsafe_now(const char* /*call*/) {
  const Books lock(books());
  bool unsafe = false;
  for (const std::shared_ptr<Capture>& capture : graphs().capturing) {
    const bool mine = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && !mine) continue;
    capture->invalid = true;
    unsafe = true;
  }
  return unsafe;
}

bool is_capturing_now(Stream& stream) {
  const Books lock(books());
  if (stream.capture == nullptr) return false;
  stream.capture->invalid = true;
  return true;
}

bool is_capturing(cudaStream_t stream) {
  const std::shared_ptr<Stream> found = find_stream(stream, "capture query");
  const Books lock(books());
  return found != nullptr && found->capture != nullptr;
}

}  // namespace ovl::emulation

using ovl::emulation::Does;
using ovl::emulation::entry;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::begin_capture(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::make,
                            [&] { return ovl::emulation::end_capture(stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    const std::shared_ptr<ovl::emulation::Stream> found = ovl::emulation::find_stream(stream, "cudaStreamIsCapturing");
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    const ovl::emulation::Books lock(ovl::emulation::books());
    *status = found->capture == nullptr ? cudaStreamCaptureStatusNone
              : found->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::make,
                            [&] { return ovl::emulation::instantiate(executable, graph); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::make,
                            [&] { return ovl::emulation::instantiate(executable, graph); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::launch_graph(executable, stream); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::upload_graph(executable, stream); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::release, [&] {
    return ovl::emulation::destroy(ovl::emulation::graphs().graphs, graph, "cudaGraphDestroy");
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::release, [&] {
    return ovl::emulation::destroy(ovl::emulation::graphs().executables, executable, "cudaGraphExecDestroy");
  });
}

}  // extern "C"
