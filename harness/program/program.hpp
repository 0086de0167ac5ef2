// SPDX-License-Identifier: Apache-2.0
//
// A program is plain data: for every class of equal ranks a flat list of operations in issue order, each on a named
// lane, the lanes ordered by events. Pure functions make programs, project them to arms, place, check and print them;
// a backend replays them. There are no loops, branches or allocations in a program: sizes are numbers.
//
// Order within a rank: operations of one lane run in issue order; a `wait` holds its lane until the event's `record`
// has fired; `host_sync` holds everything issued after it until everything issued before it has finished; what has a
// time `not_before` holds everything issued after it, and itself, until then; the parts (prologue, body, epilogue) are
// separated by a full join. Between ranks only collectives and exchanges meet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.hpp"
#include "base/enum_names.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"
#include "program/progress.hpp"

namespace ovl {

// What a GEMM of these operands writes. Products of f8 have no range in f8 to be written to, so c is bf16; b is then
// stored n×k, since the tensor cores take f8 in no other layout.
DType gemm_output(DType dtype);

enum class Role { compute, communication };
template <>
struct EnumNames<Role> {
  static constexpr std::string_view axis = "role";
  static constexpr std::pair<Role, std::string_view> table[] = {{Role::compute, "compute"},
                                                                {Role::communication, "comm"}};
};

enum class Priority { normal, high };
template <>
struct EnumNames<Priority> {
  static constexpr std::string_view axis = "priority";
  static constexpr std::pair<Priority, std::string_view> table[] = {{Priority::normal, "normal"},
                                                                    {Priority::high, "high"}};
};

// Which cores or SMs a lane may use. `automatic`: the backend's best layout. `by_role`: compute lanes of all ranks on
// one set, communication lanes on the other. `by_rank`: all lanes of a rank on one set of its own. `siblings`: the
// lanes of a rank on one core of its own, compute on one of its hardware threads, communication on another.
enum class Partition { automatic, by_role, by_rank, siblings };
template <>
struct EnumNames<Partition> {
  static constexpr std::string_view axis = "partition";
  static constexpr std::pair<Partition, std::string_view> table[] = {{Partition::automatic, "auto"},
                                                                     {Partition::by_role, "by_role"},
                                                                     {Partition::by_rank, "by_rank"},
                                                                     {Partition::siblings, "siblings"}};
};

// How a host lane waits for an event or a peer. Device lanes ignore it.
enum class Waiting { spin, yield, block };
template <>
struct EnumNames<Waiting> {
  static constexpr std::string_view axis = "waiting";
  static constexpr std::pair<Waiting, std::string_view> table[] = {
      {Waiting::spin, "spin"}, {Waiting::yield, "yield"}, {Waiting::block, "block"}};
};

struct Lane {
  std::string name;
  Role role = Role::compute;
  Priority priority = Priority::normal;
  Partition partition = Partition::automatic;
  Waiting waiting = Waiting::yield;
};

struct Communicator {
  std::string name;
  std::vector<std::vector<Rank>> groups;  // disjoint; a rank's peers are indices within its own group
  std::string transport;                  // "shm", "nccl", ...: a name that the backend lists
  int channels = 1;                       // CTAs or channels asked for; 0 leaves the choice to the library
  MessageProgress progress = {};          // who moves its messages on
};

struct Event {
  std::string name;
};

enum class Memory { plain, registered, symmetric };
template <>
struct EnumNames<Memory> {
  static constexpr std::string_view axis = "buffers";
  static constexpr std::pair<Memory, std::string_view> table[] = {
      {Memory::plain, "plain"}, {Memory::registered, "registered"}, {Memory::symmetric, "symmetric"}};
};

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t count = 0;  // elements of one copy, on every rank
  Memory memory = Memory::plain;
  int copies = 1;  // replay slot s uses copy s % copies, so that rotating buffers defeat the last-level cache
};

// A range of elements of a buffer.
struct Slice {
  BufferId buffer;
  std::int64_t offset = 0;
  std::int64_t count = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// ---- operations ----------------------------------------------------------------------------------------------------

// c = a · b, row-major. reads a (m×k), b (k×n; n×k where f8e4m3); writes c (m×n, of gemm_output). Runs `repeat` times
// in a row, same result.
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = DType::f32;
  std::int64_t repeat = 1;
  int sm_target = 0;  // SMs the library may count on; 0: all
};

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all };
template <>
struct EnumNames<CollectiveKind> {
  static constexpr std::string_view axis = "collective";
  static constexpr std::pair<CollectiveKind, std::string_view> table[] = {
      {CollectiveKind::all_reduce, "all_reduce"},
      {CollectiveKind::all_gather, "all_gather"},
      {CollectiveKind::reduce_scatter, "reduce_scatter"},
      {CollectiveKind::broadcast, "broadcast"},
      {CollectiveKind::all_to_all, "all_to_all"}};
};

// Sums for the reducing kinds. `count` is the elements of the *whole* array, nccl-tests' convention, a multiple of the
// group size n but for all_reduce and broadcast. reads / writes by kind: all_reduce S / S; all_gather S/n / S;
// reduce_scatter S / S/n; broadcast S / S (the root's input; others' input is ignored); all_to_all S / S.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  CommId comm;
  DType dtype = DType::f32;
  std::int64_t count = 0;
  int root = 0;
};

enum class Direction { send, receive };

// Sends and receives that proceed together, like a group call. The i-th send takes reads[i] of the sends in order, the
// j-th receive fills writes[j]. `peer` is an index within the rank's group.
struct Transfer {
  Direction direction = Direction::send;
  int peer = 0;
};
struct Exchange {
  CommId comm;
  DType dtype = DType::f32;
  std::vector<Transfer> transfers;
};

// writes[0] = reads[0].
struct Copy {};
// Keep the lane busy for a given time: a stand-in for work whose duration is known.
struct Busy {
  Seconds duration;
};
// writes[0] += the sum of all reads: an optimizer step, an accumulation.
struct Elementwise {};
// What contends with other work. It lasts a given amount or, with a valid `until`, until that event: the event's one
// record is issued later, on another lane that does not wait for this operation, so that it is there before its victim
// and outlives it.
//
// Holds `count` SMs (or cores), the lane's own among them, and does nothing else: no slices, no memory traffic.
struct Occupy {
  int count = 1;
  Seconds duration;  // where there is no event
  EventId until;
};
// Moves bytes through memory: writes[0] = reads[0] from first to last and again from the first, on `workers` SMs (or
// cores), the lane's own among them. `pace` and `bytes` count what is read and what is written.
struct Stream {
  BytesPerSecond pace;  // 0: as fast as it goes
  int workers = 1;
  Bytes bytes;  // where there is no event
  EventId until;
};
// Prologue: give writes[*] the case's data (exact or random), a pure function of (seed, rank, buffer, index).
struct Fill {};
// Epilogue: the outputs of `target` must be what its kind says of its inputs.
struct Verify {
  OpId target;
};
enum class Moment { completion, start };
// Fires when everything issued before it on its lane has finished (completion), or when the operation that it marks
// starts (start): the one issued right after it, on its lane, which does work. Several start records may mark one.
struct Record {
  EventId event;
  Moment moment = Moment::completion;
};
struct Wait {
  EventId event;
};
struct HostSync {};

using Work = std::variant<Gemm, Collective, Exchange, Copy, Busy, Elementwise, Occupy, Stream, Fill, Verify, Record,
                          Wait, HostSync>;

// Ids are unique within a rank class over all parts, and the same operation keeps its id in every arm.
struct Operation {
  OpId id;
  LaneId lane;
  Role role = Role::compute;
  Work work;
  std::vector<Slice> reads;
  std::vector<Slice> writes;
  // After the origin: the rank submits it then, not earlier, and what is issued later not before it. Nothing: at once.
  std::optional<Seconds> not_before = std::nullopt;
};

struct RankClass {
  std::string name;
  std::vector<Rank> members;
  std::vector<Operation> prologue;
  std::vector<Operation> body;
  std::vector<Operation> epilogue;
};

// What a check of the data alone can find: check.hpp says what each is.
enum class FindingKind { shape, event, race, mismatch, deadlock };
template <>
struct EnumNames<FindingKind> {
  static constexpr std::string_view axis = "finding";
  static constexpr std::pair<FindingKind, std::string_view> table[] = {{FindingKind::shape, "shape"},
                                                                       {FindingKind::event, "event"},
                                                                       {FindingKind::race, "race"},
                                                                       {FindingKind::mismatch, "mismatch"},
                                                                       {FindingKind::deadlock, "deadlock"}};
};

struct Program {
  std::string name;
  int ranks = 1;
  std::vector<Lane> lanes;
  std::vector<Communicator> communicators;
  std::vector<Event> events;
  std::vector<Buffer> buffers;
  std::vector<RankClass> classes;  // disjoint, covering 0 .. ranks-1
  bool graph = false;              // replay by a captured graph
  // What is wrong with it on purpose. Nothing, but in a program that shows what an error costs (schedule/ordering.hpp).
  std::vector<FindingKind> expected_findings;

  [[nodiscard]] const RankClass& class_of(Rank rank) const;
};

[[nodiscard]] std::string_view kind_name(const Work& work);
// record, wait and host_sync order others and do no work of their own.
[[nodiscard]] bool is_ordering(const Work& work);

// Whether some operation of the body has a time before which it is not submitted: then a replay is live.
[[nodiscard]] bool submitted_over_time(const Program& program);

// The event that ends the work; invalid: it ends by itself.
[[nodiscard]] EventId lasts_until(const Work& work);

// An id that no operation of the class has, nor any above it.
[[nodiscard]] OpId free_id(const RankClass& rank_class);

// Bytes of one rank: the declared buffers, all copies.
[[nodiscard]] Bytes memory_per_rank(const Program& program);
// 2·m·n·k·repeat.
[[nodiscard]] Flops flops_of(const Gemm& gemm);

}  // namespace ovl
