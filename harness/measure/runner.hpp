// SPDX-License-Identifier: Apache-2.0
//
// Measures one case after another: which arm, in which order, how often, and when to stop. The backend owns gate, clock
// and replay; what the samples mean is summary.hpp's.
//
// Which programs are the arms is the case's choice (measure/case.hpp).
//
//   tune -> check -> supported? -> verify (exact, then random) -> warm up -> blocks of rounds -> instrumented pass
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "measure/case.hpp"
#include "measure/clock.hpp"
#include "measure/deadline.hpp"
#include "measure/samples.hpp"
#include "measure/summary.hpp"
#include "stats/stopping.hpp"

namespace ovl {

enum class Status { ok, noisy, skipped, unsupported, failed_verify, timeout };
template <>
struct EnumNames<Status> {
  static constexpr std::string_view axis = "status";
  static constexpr std::pair<Status, std::string_view> table[] = {{Status::ok, "ok"},
                                                                  {Status::noisy, "noisy"},
                                                                  {Status::skipped, "skipped"},
                                                                  {Status::unsupported, "unsupported"},
                                                                  {Status::failed_verify, "failed_verify"},
                                                                  {Status::timeout, "timeout"}};
};

struct MeasureOptions {
  StopRule stop{.precision = 0.05, .min_rounds = 20, .max_rounds = 1000, .max_time = Seconds(8)};
  Interleave interleave = Interleave::sample;
  Launch launch = Launch::gated;
  bool verify = true;
  std::uint64_t seed = 1;
  Seconds window = Seconds(0);        // shorter operations repeat within it; 0: the backend's own
  Seconds block = milliseconds(500);  // rounds between two readings of the conditions
  Seconds block_arm = Seconds(2);     // --interleave block: time on one arm before the next
  Seconds warm_up = Seconds(1);       // at most
  Seconds deadline = Seconds(60);     // of one replay
  int instrumented = 5;               // replays with stamps around every operation
};

struct CaseResult {
  Status status = Status::ok;
  std::string reason;
  Program program;           // overlapped; of an unsupported case as far as it could be built
  std::string program_hash;  // of all arms, as measured
  std::string verified;      // as the column verify says; empty: it did not come to that
  std::vector<Fact> observed;
  std::vector<Sample> samples;
  std::vector<bool> used;          // of each sample
  std::vector<std::string> noise;  // of each sample: what spoilt its block
  std::vector<Block> blocks;
  std::vector<Block> used_blocks;
  int rounds_spoilt = 0;
  Stop stop = Stop::go_on;
  Seconds elapsed;
  std::vector<std::pair<std::string, Timings>> instrumented;  // by arm
  std::optional<Difference> difference;                       // from the serial replay; nothing: not looked for
  Summary summary;                                            // without numbers unless the status is ok or noisy

  [[nodiscard]] bool has_numbers() const { return status == Status::ok || status == Status::noisy; }
};

// Told where a long case stands; called between replays only.
using Progress = std::function<void(const std::string& phase, int rounds, Seconds elapsed, Interval watched)>;

// The reason of a timeout row; `report` as Deadline's.
std::string hang_reason(Seconds deadline, const std::string& report);

class Runner {
 public:
  // `interrupted` may be set from a signal handler: the case under way is then given up. `on_hang` as Deadline's.
  Runner(Backend& backend, Clock& clock, MeasureOptions options, const std::atomic<bool>& interrupted,
         Progress progress = {}, Deadline::OnHang on_hang = {});

  // Throws Error(interrupted), and Error(failure) for what ends the run (memory, a broken backend). What only concerns
  // this case is a status with a reason.
  CaseResult run(const CaseSpec& spec);

 private:
  // The case under way as the backend has it: in one state for all arms.
  struct Ready {
    std::vector<Program> arms;
    std::unique_ptr<Prepared> prepared;
  };

  void run_phases(const CaseSpec& spec, CaseResult& result);
  // Refuses arms with findings that they do not announce, which takes a moment for each.
  void require_sound(const std::vector<Program>& arms) const;
  std::unique_ptr<Prepared> prepare(const std::vector<Program>& arms, Data data);
  Timings replay(Prepared& prepared, std::size_t arm, const Program& program, std::int64_t slot,
                 Recording recording = Recording::spans);
  Tuning tune(const CaseSpec& spec);
  // Both return the first failure; empty: all is well.
  std::string check_exact(const Program& program);
  std::string check_random(const Program& program);
  // One replay of its program on exact data; nothing where these cannot tell, and why.
  std::optional<Difference> differs_from_serial(const SerialCheck& check, std::string& untold);
  // Of a case that names results: one step of it, where that is short enough; `checked` says whether it was.
  std::string check_serially(const CaseSpec& spec, bool& checked);
  // Likewise; what differed is in the result.
  std::string check_against_serial(const CaseSpec& spec, CaseResult& result);
  // Builds and checks the arms with the result's tuning.
  std::vector<Program> build_arms(const CaseSpec& spec, CaseResult& result) const;
  void warm_up(Ready& ready);
  // Whether every arm that compute is to cover was covered.
  bool measure_round(const CaseSpec& spec, Ready& ready, int round, CaseResult& result);
  void measure(const CaseSpec& spec, Ready& ready, CaseResult& result);
  void instrument(const CaseSpec& spec, Ready& ready, CaseResult& result);
  void tell(const std::string& phase, int rounds = 0, Interval watched = {});
  void stop_if_interrupted() const;
  void stop_if_late() const;
  [[nodiscard]] bool predicts() const;

  Backend& backend_;
  Clock& clock_;
  MeasureOptions options_;
  const std::atomic<bool>& interrupted_;
  Progress progress_;
  Deadline deadline_;
  Description description_;
  Seconds began_;  // of the case under way
  std::uint64_t case_seed_ = 0;
  bool restores_data_ = false;
};

}  // namespace ovl
