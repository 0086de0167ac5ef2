// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: what is put into a capturing stream becomes a node of a graph instead.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "streams.hpp"

namespace ovl::emulation {

struct Node {
  Operation operation;
  std::set<std::size_t> after;
  std::size_t lane = 0;
};

// Streams of a graph: each captured stream's nodes run in order on a hidden stream of its own.
struct GraphLane {
  int device = 0;
  int priority = 0;
  std::vector<int> sms;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<GraphLane> lanes;
};

struct Capture {
  struct Member {
    std::size_t lane = 0;
    std::set<std::size_t> front;  // what the stream's next node comes after
  };
  const Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
  bool ended = false;
  Graph graph;
  std::map<std::shared_ptr<Stream>, Member> members;
};

// A node more on a capturing stream. With books() held.
cudaError_t add_node(Stream& stream, Operation operation);
// The stream becomes part of the capture, or waits for more of it.
void join_capture(Stream& stream, const std::shared_ptr<Capture>& capture, const std::set<std::size_t>& front);
const std::set<std::size_t>& front_of(Stream& stream);
// A stream that captures is destroyed: no graph comes of it. Takes books().
void drop_capture(Stream& stream);

// While it lives, what this thread enqueues belongs to one launch of a graph, as CUPTI tells it.
class GraphLaunchScope {
 public:
  GraphLaunchScope();
  GraphLaunchScope(const GraphLaunchScope&) = delete;
  GraphLaunchScope& operator=(const GraphLaunchScope&) = delete;
  ~GraphLaunchScope();
};

// Whether this thread must not make such a call now because of a capture; the capture is invalid then. Takes books().
bool is_unsafe_now(const char* call);
// The same for a call on one stream that captures.
bool is_capturing_now(Stream& stream);

}  // namespace ovl::emulation
