// SPDX-License-Identifier: Apache-2.0
//
// Stream capture and the replay of graphs.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "emulator.hpp"
#include "owners.hpp"

namespace ovl::emulation {
namespace {

struct TestGraph {
  // Ends the capture of this stream.
  explicit TestGraph(cudaStream_t stream) {
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  ~TestGraph() {
    ok(cudaGraphExecDestroy(executable));
    ok(cudaGraphDestroy(graph));
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

void begin(cudaStream_t stream) { ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); }

// Ends a capture that has failed; what EndCapture said.
cudaError_t end_failed(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
  return error;
}

class Log {
 public:
  Task add(char letter) {
    return work([this, letter] {
      const std::lock_guard lock(mutex_);
      text_ += letter;
    });
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, "");
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

TEST(EmulatedGraphs, RunNothingWhileTheyAreCaptured) {
  Log log;
  const TestStream stream;
  begin(stream.stream);
  EXPECT_TRUE(is_capturing(stream.stream));
  cudaStreamCaptureStatus status{};
  ok(cudaStreamIsCapturing(stream.stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ok(enqueue(stream.stream, log.add('a')));
  ok(enqueue(stream.stream, log.add('b')));
  const TestGraph graph(stream.stream);
  EXPECT_FALSE(is_capturing(stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(log.take(), "");
  ok(cudaGraphUpload(graph.executable, stream.stream));
  ok(cudaGraphLaunch(graph.executable, stream.stream));
  ok(cudaGraphLaunch(graph.executable, stream.stream));  // behind the first
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(log.take(), "abab");
}

// a; behind it b and c on the other stream; d behind both. In between the streams meet, so both run at once.
TEST(EmulatedGraphs, ForkAndJoin) {
  Log log;
  const TestStream one;
  const TestStream two;
  const TestEvent fork(cudaEventDisableTiming);
  const TestEvent join(cudaEventDisableTiming);
  std::atomic<int> arrived{0};
  const auto meet = [&arrived] {
    ++arrived;
    while (arrived % 2 != 0 && !stopping()) std::this_thread::yield();
  };
  // Gives a stream that does not wait the time to be seen.
  const auto linger = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  begin(one.stream);
  ok(enqueue(one.stream, work(linger)));
  ok(enqueue(one.stream, log.add('a')));
  ok(cudaEventRecord(fork.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, fork.event, 0));
  EXPECT_TRUE(is_capturing(two.stream));
  ok(enqueue(two.stream, log.add('b')));
  ok(enqueue(one.stream, work(meet)));
  ok(enqueue(two.stream, work(meet)));
  ok(enqueue(two.stream, work(linger)));
  ok(enqueue(two.stream, log.add('c')));
  ok(cudaEventRecord(join.event, two.stream));
  ok(cudaStreamWaitEvent(one.stream, join.event, 0));
  ok(enqueue(one.stream, log.add('d')));
  const TestGraph graph(one.stream);
  EXPECT_FALSE(is_capturing(two.stream));
  for (int i = 1; i <= 3; ++i) {
    ok(cudaGraphLaunch(graph.executable, one.stream));
    ok(cudaStreamSynchronize(one.stream));
    EXPECT_EQ(arrived, 2 * i);
    EXPECT_EQ(log.take(), "abcd");
  }
}

// What comes behind the launch comes behind all of the graph, also its other stream's part.
TEST(EmulatedGraphs, AreOneTaskOfTheirStream) {
  Log log;
  TestGate gate;
  const TestStream one;
  const TestStream two;
  const TestEvent fork(cudaEventDisableTiming);
  const TestEvent join(cudaEventDisableTiming);
  begin(one.stream);
  ok(cudaEventRecord(fork.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, fork.event, 0));
  ok(enqueue(two.stream, log.add('b')));
  ok(cudaEventRecord(join.event, two.stream));
  ok(cudaStreamWaitEvent(one.stream, join.event, 0));
  const TestGraph graph(one.stream);
  gate.close(one.stream);
  ok(enqueue(one.stream, log.add('a')));
  ok(cudaGraphLaunch(graph.executable, one.stream));
  ok(enqueue(one.stream, log.add('c')));
  ok(cudaStreamSynchronize(two.stream));  // its part runs on no stream of ours
  EXPECT_EQ(log.take(), "");
  gate.open();
  ok(cudaStreamSynchronize(one.stream));
  EXPECT_EQ(log.take(), "abc");
}

TEST(EmulatedGraphs, RecordExternalEventsEachTime) {
  TestGate gate;
  const TestStream stream;
  const TestEvent event;
  begin(stream.stream);
  ok(cudaEventRecordWithFlags(event.event, stream.stream, cudaEventRecordExternal));
  const TestGraph graph(stream.stream);
  gate.close(stream.stream);
  EXPECT_EQ(cudaEventQuery(event.event), cudaSuccess);  // not recorded so far
  ok(cudaGraphLaunch(graph.executable, stream.stream));
  EXPECT_EQ(cudaEventQuery(event.event), cudaErrorNotReady);
  gate.open();
  ok(cudaEventSynchronize(event.event));
  EXPECT_EQ(cudaEventRecordWithFlags(event.event, stream.stream, cudaEventRecordExternal), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(EmulatedGraphs, WaitForExternalEvents) {
  Log log;
  TestGate gate;
  const TestStream stream;
  const TestStream other;
  const TestEvent event;
  begin(stream.stream);
  ok(cudaStreamWaitEvent(stream.stream, event.event, cudaEventWaitExternal));
  ok(enqueue(stream.stream, log.add('b')));
  const TestGraph graph(stream.stream);
  gate.close(other.stream);
  ok(enqueue(other.stream, log.add('a')));
  ok(cudaEventRecord(event.event, other.stream));
  ok(cudaGraphLaunch(graph.executable, stream.stream));
  gate.open();
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(log.take(), "ab");
}

TEST(EmulatedGraphs, RefuseAStreamThatWasNotJoined) {
  Log log;
  const TestStream one;
  const TestStream two;
  const TestEvent fork(cudaEventDisableTiming);
  begin(one.stream);
  ok(cudaEventRecord(fork.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, fork.event, 0));
  ok(enqueue(two.stream, log.add('a')));
  EXPECT_EQ(end_failed(one.stream), cudaErrorStreamCaptureUnjoined);
  EXPECT_FALSE(is_capturing(two.stream));
}

TEST(EmulatedGraphs, RefuseToSynchronizeWhileTheyAreCaptured) {
  Log log;
  const TestStream stream;
  begin(stream.stream);
  EXPECT_EQ(cudaStreamSynchronize(stream.stream), cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
  EXPECT_EQ(enqueue(stream.stream, log.add('a')), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_failed(stream.stream), cudaErrorStreamCaptureInvalidated);
}

TEST(EmulatedGraphs, RefuseAnAllocationByTheCapturingThreadOnly) {
  const TestStream stream;
  void* memory = nullptr;
  begin(stream.stream);
  std::thread([&] { ok(cudaMalloc(&memory, 16)); }).join();
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
  EXPECT_EQ(end_failed(stream.stream), cudaErrorStreamCaptureInvalidated);
  ok(cudaFree(memory));
}

TEST(EmulatedGraphs, RefuseAnEventFromOutside) {
  const TestStream stream;
  const TestStream other;
  const TestEvent event;
  ok(cudaEventRecord(event.event, other.stream));
  begin(stream.stream);
  EXPECT_EQ(cudaStreamWaitEvent(stream.stream, event.event, 0), cudaErrorStreamCaptureIsolation);
  cudaGetLastError();
  EXPECT_EQ(end_failed(stream.stream), cudaErrorStreamCaptureInvalidated);
}

TEST(EmulatedGraphs, TellThatAnEventWasCaptured) {
  const TestStream stream;
  const TestEvent event;
  begin(stream.stream);
  ok(cudaEventRecord(event.event, stream.stream));
  const TestGraph graph(stream.stream);
  EXPECT_EQ(cudaEventQuery(event.event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event.event), cudaErrorCapturedEvent);
  cudaGetLastError();
  EXPECT_EQ(cudaStreamWaitEvent(stream.stream, event.event, 0), cudaErrorCapturedEvent);
  cudaGetLastError();
  ok(cudaEventRecord(event.event, stream.stream));  // a live record makes it an event again
  ok(cudaEventSynchronize(event.event));
}

TEST(EmulatedGraphs, EndWhereTheyBeganOnThatThread) {
  const TestStream one;
  const TestStream two;
  cudaGraph_t graph = nullptr;
  begin(one.stream);
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&] { elsewhere = cudaStreamEndCapture(one.stream, &graph); }).join();
  EXPECT_EQ(elsewhere, cudaErrorStreamCaptureWrongThread);
  const TestEvent fork(cudaEventDisableTiming);
  ok(cudaEventRecord(fork.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, fork.event, 0));
  EXPECT_EQ(cudaStreamEndCapture(two.stream, &graph), cudaErrorStreamCaptureUnmatched);
  cudaGetLastError();
  EXPECT_EQ(end_failed(one.stream), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
}

TEST(EmulatedGraphs, AreDroppedWithTheirStream) {
  const TestStream other;
  {
    const TestStream stream;
    begin(stream.stream);
  }
  void* memory = nullptr;
  ok(cudaMalloc(&memory, 16));  // nothing is captured any more
  ok(cudaFree(memory));
}

}  // namespace
}  // namespace ovl::emulation
