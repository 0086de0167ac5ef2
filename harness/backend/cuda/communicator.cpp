// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/communicator.hpp"

#include <dlfcn.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "base/error.hpp"

namespace ovl::cuda {
namespace {

constexpr int v2_24 = NCCL_VERSION(2, 24, 0);
constexpr int v2_27 = NCCL_VERSION(2, 27, 0);
constexpr int v2_28_3 = NCCL_VERSION(2, 28, 3);
constexpr int v2_32 = NCCL_VERSION(2, 32, 0);

// NCCL caps the CTAs of a communicator here (MAXCHANNELS), and few devices profit from more than half.
constexpr int most_channels = 64;
constexpr int usual_channels = 32;

// ---- what a newer NCCL has, found at run time so that an older one still loads us
// --------------------------------------

template <class Function>
Function* find_symbol(const char* name) {
  // The default search order is that of the module itself, which links NCCL.
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

using AllToAll = ncclResult_t(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
AllToAll* all_to_all_call() {
  static AllToAll* const found = nccl_version() >= v2_28_3 ? find_symbol<AllToAll>("ncclAlltoAll") : nullptr;
  return found;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
using RegisterWindow = ncclResult_t(ncclComm_t, void*, std::size_t, ncclWindow_t*, int);
using DeregisterWindow = ncclResult_t(ncclComm_t, ncclWindow_t);
RegisterWindow* register_window_call() {
  static RegisterWindow* const found = find_symbol<RegisterWindow>("ncclCommWindowRegister");
  return found;
}
DeregisterWindow* deregister_window_call() {
  static DeregisterWindow* const found = find_symbol<DeregisterWindow>("ncclCommWindowDeregister");
  return found;
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
struct ConfiguredCalls {
  decltype(&ncclAllReduceConfig) all_reduce = nullptr;
  decltype(&ncclAllGatherConfig) all_gather = nullptr;
  decltype(&ncclReduceScatterConfig) reduce_scatter = nullptr;
  decltype(&ncclBroadcastConfig) broadcast = nullptr;
  decltype(&ncclAlltoAllConfig) all_to_all = nullptr;

  [[nodiscard]] bool complete() const {
    return all_reduce != nullptr && all_gather != nullptr && reduce_scatter != nullptr && broadcast != nullptr &&
           all_to_all != nullptr;
  }
};

template <class Function>
void fetch_loaded(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const ConfiguredCalls& configured_calls() {
  static const ConfiguredCalls found = [] {
    ConfiguredCalls calls;
    if (nccl_version() < NCCL_VERSION(2, 31, 0)) return calls;
    fetch_loaded("ncclAllReduceConfig", calls.all_reduce);
    fetch_loaded("ncclAllGatherConfig", calls.all_gather);
    fetch_loaded("ncclReduceScatterConfig", calls.reduce_scatter);
    fetch_loaded("ncclBroadcastConfig", calls.broadcast);
    fetch_loaded("ncclAlltoAllConfig", calls.all_to_all);
    return calls;
  }();
  return found;
}

ncclCollConfig_t call_config(int channels, cudaEvent_t all_blocks_began) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  if (channels > 0) {
    config.minCTAs = channels;  // both: a minimum alone is compared with an undefined maximum
    config.maxCTAs = channels;
    config.nvlsCTAs = channels;
    config.cgaClusterSize = 0;
  }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 32, 0)
  config.launchCompletionEvent = all_blocks_began;
#else
  static_cast<void>(all_blocks_began);
#endif
  return config;
}
#endif

// ---- types ----------------------------------------------------------------------------------------------------------

std::optional<ncclDataType_t> nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return ncclFloat64;
    case DType::f32:
    case DType::tf32: return ncclFloat32;
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    case DType::f8e4m3:
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
      return ncclFloat8e4m3;
#else
      return std::nullopt;
#endif
  }
  return std::nullopt;
}

ncclDataType_t type_of(DType dtype) {
  const auto type = nccl_type(dtype);
  require(type.has_value(), "NCCL has the dtype that a supported program asks for");
  return *type;
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

// ---- group calls
// ------------------------------------------------------------------------------------------------------

// Ends the group also where an error leaves it: otherwise this thread's next call would still belong to it.
class GroupCall {
 public:
  GroupCall() { check(ncclGroupStart(), "ncclGroupStart"); }
  GroupCall(const GroupCall&) = delete;
  GroupCall& operator=(const GroupCall&) = delete;
  ~GroupCall() {
    if (!ended_) forgive(ncclGroupEnd());  // an error is on its way already
  }
  void end() {
    ended_ = true;
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  bool ended_ = false;
};

// ---- overrides
// --------------------------------------------------------------------------------------------------------

// What decides the number of CTAs, or their shape, in place of the configuration.
constexpr const char* channel_settings[] = {
    "NCCL_MIN_CTAS",      "NCCL_MAX_CTAS",   "NCCL_CGA_CLUSTER_SIZE", "NCCL_CTA_POLICY",     "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",       "NCCL_NVLS_NCHANNELS", "NCCL_SYM_CTAS",
};
constexpr const char* blocking_setting = "NCCL_COMM_BLOCKING";
constexpr const char* policy_setting = "NCCL_CTA_POLICY";

// As NCCL reads it: NAME=VALUE to the end of the line, a comment only where # is the first character.
std::optional<std::string> value_in(const ConfigFile& file, std::string_view name) {
  std::istringstream lines(file.contents);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    if (std::string_view(line).substr(0, equals) == name) return line.substr(equals + 1);
  }
  return std::nullopt;
}

struct Setting {
  std::string value;
  std::string where;
};

std::optional<Setting> setting_of(const char* name, const Environment& environment,
                                  const std::vector<ConfigFile>& files) {
  const char* in_environment = environment(name);
  for (const ConfigFile& file : files) {
    const auto value = value_in(file, name);
    if (!value) continue;
    // NCCL puts what it read into the environment, so the file is named where both say the same.
    if (in_environment == nullptr || *value == in_environment) return Setting{*value, file.name};
    break;
  }
  if (in_environment == nullptr) return std::nullopt;
  return Setting{in_environment, "environment"};
}

std::string text_of(const char* name, const Setting& setting) {
  return fmt::format("{}={} ({})", name, setting.value, setting.where);
}

const char* environment_value(const char* name) { return std::getenv(name); }

// The user's, as NCCL looks it up: by the user id, whatever $HOME says. Empty where the system knows none.
std::string home_directory() {
  std::vector<char> text(16 * 1024);
  passwd entry{};
  passwd* user = nullptr;
  if (getpwuid_r(getuid(), &entry, text.data(), text.size(), &user) != 0 || user == nullptr) return {};
  return user->pw_dir == nullptr ? "" : user->pw_dir;
}

// ---- what NCCL can do
// --------------------------------------------------------------------------------------------------

bool is_zero_policy(const std::string& setting) {
  return setting.starts_with("NCCL_CTA_POLICY=2 ") || setting.starts_with("NCCL_CTA_POLICY=ZERO ");
}

std::string lacks(const NcclTraits& traits, int needed, const std::string& what) {
  if (traits.version < needed) {
    return fmt::format("{} needs NCCL {}, and {} was loaded: put a newer libnccl.so.2 first on LD_LIBRARY_PATH", what,
                       nccl_version_text(needed), nccl_version_text(traits.version));
  }
  if (traits.header_version < needed) {
    return fmt::format("{} needs NCCL {}, and this was compiled against {}: set NCCL_HOME and build again", what,
                       nccl_version_text(needed), nccl_version_text(traits.header_version));
  }
  return {};
}

std::string dtype_reason(DType dtype, bool sums, const NcclTraits& traits) {
  constexpr int ampere = 80;
  constexpr int hopper = 90;
  if (dtype == DType::bf16 && sums && traits.capability < ampere) {
    return "bf16 is reduced from compute capability 8.0";
  }
  if (dtype != DType::f8e4m3) return {};
  if (std::string reason = lacks(traits, v2_24, "f8e4m3"); !reason.empty()) return reason;
  if (sums && traits.capability < hopper) return "NCCL reduces f8e4m3 from compute capability 9.0";
  return {};
}

std::vector<const Operation*> operations_on(const Program& program, CommId comm) {
  std::vector<const Operation*> found;
  for (const RankClass& c : program.classes) {
    for (const auto* part : {&c.prologue, &c.body, &c.epilogue}) {
      for (const Operation& op : *part) {
        const auto* collective = std::get_if<Collective>(&op.work);
        const auto* exchange = std::get_if<Exchange>(&op.work);
        if ((collective != nullptr && collective->comm == comm) || (exchange != nullptr && exchange->comm == comm)) {
          found.push_back(&op);
        }
      }
    }
  }
  return found;
}

bool all_symmetric(const Program& program, const Operation& op) {
  for (const auto* slices : {&op.reads, &op.writes}) {
    for (const Slice& s : *slices) {
      if (program.buffers.at(s.buffer.index()).memory != Memory::symmetric) return false;
    }
  }
  return true;
}

std::string copy_reason(const Program& program, const Operation& op, const NcclTraits& traits) {
  constexpr int cuda_12_5 = 12050;
  const auto* collective = std::get_if<Collective>(&op.work);
  if (collective == nullptr) return "NCCL has no copy-engine exchange: use all_gather or all_to_all";
  if (collective->kind != CollectiveKind::all_gather && collective->kind != CollectiveKind::all_to_all) {
    return fmt::format("NCCL has no copy-engine {}: {}; use all_gather or all_to_all", name(collective->kind),
                       reduces(collective->kind) ? "copy engines cannot add" : "its zero-CTA policy leaves it out");
  }
  if (std::string reason = lacks(traits, v2_28_3, "the transport copy"); !reason.empty()) return reason;
  if (traits.driver_version < cuda_12_5) return "the transport copy needs a driver for CUDA 12.5 or later";
  if (!all_symmetric(program, op)) return "the transport copy needs symmetric buffers: type --buffers symmetric";
  if (!traits.cta_policy.empty() && !is_zero_policy(traits.cta_policy)) {
    return traits.cta_policy + " overrides the zero-CTA policy that the transport copy asks for: unset it";
  }
  return {};
}

std::string memory_reason(const Program& program, const Operation& op, const NcclTraits& traits) {
  for (const auto* slices : {&op.reads, &op.writes}) {
    for (const Slice& s : *slices) {
      if (program.buffers.at(s.buffer.index()).memory == Memory::symmetric) {
        return lacks(traits, v2_27, "a symmetric buffer");
      }
    }
  }
  return {};
}

Error aborted_error(const char* what) {
  return failure(what, "the session's communicators were aborted", "start a new process");
}

// ---- unique ids
// --------------------------------------------------------------------------------------------------------

constexpr char failed_mark = '!';  // no hexadecimal digit

std::string hexadecimal(const ncclUniqueId& id) {
  std::string text;
  for (const char byte : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

ncclUniqueId parse_id(const std::string& text) {
  ncclUniqueId id = {};
  require(text.size() == 2 * sizeof(id.internal), "a unique id comes whole");
  for (std::size_t i = 0; i < sizeof(id.internal); ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

// From process 0, which need not be a member: its library then only introduces the members to each other. A failure
// there is everybody's.
ncclUniqueId shared_id(World& world) {
  std::string text;
  if (world.decides()) {
    try {
      ncclUniqueId id = {};
      check(ncclGetUniqueId(&id), "ncclGetUniqueId");
      text = hexadecimal(id);
    } catch (const Error& error) {
      text = failed_mark + std::string(error.what());
    }
  }
  text = world.broadcast(text);
  if (!text.empty() && text[0] == failed_mark) throw SharedError(ErrorKind::failure, text.substr(1));
  return parse_id(text);
}

}  // namespace

// ---- versions
// ---------------------------------------------------------------------------------------------------------

int nccl_version() {
  static const int version = [] {
    int loaded = 0;
    check(ncclGetVersion(&loaded), "ncclGetVersion");
    return loaded;
  }();
  return version;
}

std::string nccl_version_text(int version) {
  // From 2.9 on the major number is worth 10000; before it was 1000.
  const int major = version >= 10000 ? version / 10000 : version / 1000;
  const int minor = version >= 10000 ? version / 100 % 100 : version / 100 % 10;
  return fmt::format("{}.{}.{}", major, minor, version % 100);
}

bool has_call_config() {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
  return configured_calls().complete();
#else
  return false;
#endif
}

bool has_launch_completion() { return has_call_config() && nccl_version() >= v2_32 && nccl_header_version() >= v2_32; }

// ---- overrides
// --------------------------------------------------------------------------------------------------------

std::vector<std::string> overrides_in(const Environment& environment, const std::vector<ConfigFile>& files,
                                      int channels) {
  std::vector<std::string> found;
  // Calls that return before their work is on the stream are none that a replay can be made of.
  const auto blocking = setting_of(blocking_setting, environment, files);
  if (blocking && std::atoi(blocking->value.c_str()) == 0) found.push_back(text_of(blocking_setting, *blocking));
  if (channels > 0) {
    for (const char* name : channel_settings) {
      if (const auto setting = setting_of(name, environment, files)) found.push_back(text_of(name, *setting));
    }
  }
  return found;
}

std::vector<std::string> overrides_of(int channels) {
  return overrides_in(environment_value, config_files(), channels);
}

std::vector<ConfigFile> config_files() {
  std::vector<std::string> names;
  const char* named = std::getenv("NCCL_CONF_FILE");
  if (named != nullptr && *named != '\0') {
    names.emplace_back(named);
  } else if (const std::string home = home_directory(); !home.empty()) {
    names.push_back(home + "/.nccl.conf");
  }
  names.emplace_back("/etc/nccl.conf");
  std::vector<ConfigFile> files;
  for (const std::string& name : names) {
    std::ifstream file(name);
    std::ostringstream contents;
    if (file && contents << file.rdbuf()) files.push_back({name, contents.str()});
  }
  return files;
}

// ---- what NCCL can do
// -------------------------------------------------------------------------------------------------

std::string cannot_communicate(const Program& program, CommId comm, const NcclTraits& traits) {
  const Communicator& communicator = program.communicators.at(comm.index());
  for (const Operation* op : operations_on(program, comm)) {
    const auto* collective = std::get_if<Collective>(&op->work);
    const auto* exchange = std::get_if<Exchange>(&op->work);
    const DType dtype = collective != nullptr ? collective->dtype : exchange->dtype;
    const bool sums = collective != nullptr && reduces(collective->kind);
    if (std::string reason = dtype_reason(dtype, sums, traits); !reason.empty()) return reason;
    if (std::string reason = memory_reason(program, *op, traits); !reason.empty()) return reason;
    if (communicator.transport == "copy") {
      if (std::string reason = copy_reason(program, *op, traits); !reason.empty()) return reason;
    }
  }
  if (communicator.channels > most_channels) {
    return fmt::format("{} channels: NCCL has at most {}", communicator.channels, most_channels);
  }
  return {};
}

std::string cannot_communicate(const Program& program, CommId comm, const Device& device) {
  NcclTraits traits;
  traits.version = nccl_version();
  traits.header_version = nccl_header_version();
  traits.capability = device.capability();
  check(cudaDriverGetVersion(&traits.driver_version), "cudaDriverGetVersion");
  if (const auto policy = setting_of(policy_setting, environment_value, config_files())) {
    traits.cta_policy = text_of(policy_setting, *policy);
  }
  return cannot_communicate(program, comm, traits);
}

CommConfig communicator_config(const CommConfig& asked, bool call_config) {
  CommConfig made = asked;
  if (asked.copy_engine) made.channels = 0;  // there are none to count
  if (call_config && made.channels > 0 && !made.point_to_point) {
    // A call takes at most its communicator's, and a communicator has only as many as it was made for.
    made.channels = made.channels <= usual_channels ? usual_channels : most_channels;
  }
  // Only where calls are told their CTAs does it matter that some cannot be.
  if (!call_config || made.channels == 0) made.point_to_point = false;
  return made;
}

ncclConfig_t nccl_config(const CommConfig& made) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (made.channels > 0) {
    config.minCTAs = made.channels;  // both: a minimum alone is compared with an undefined maximum and refused
    config.maxCTAs = made.channels;
    // Where the count is no multiple of the cluster NCCL changes the cluster's shape with it; none keeps the shape.
    config.cgaClusterSize = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.nvlsCTAs = made.channels;
#endif
  }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  if (made.copy_engine) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
#endif
  return config;
}

// ---- groups
// -----------------------------------------------------------------------------------------------------------

ncclComm_t Group::of(Rank rank) const {
  const auto found = local_.find(rank);
  return found != local_.end() ? found->second : nullptr;
}

int Group::index_of(Rank rank) const {
  const auto found = std::find(members_.begin(), members_.end(), rank);
  require(found != members_.end(), "a rank asks for its place in a group that it belongs to");
  return static_cast<int>(found - members_.begin());
}

// ---- registration
// -----------------------------------------------------------------------------------------------------

struct Registration::Slot {
  ncclComm_t comm = nullptr;
  std::shared_ptr<AbortState> abort;
  void* handle = nullptr;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  ncclWindow_t window = nullptr;
#endif
};

Registration::Registration() = default;
Registration::Registration(Registration&& other) noexcept = default;

void Registration::enter(const Group& group, Rank rank, const DeviceMemory& memory, Memory kind) {
  const ncclComm_t comm = group.of(rank);
  require(comm != nullptr && kind != Memory::plain, "a buffer is registered by a local member, and not a plain one");
  auto slot = std::make_unique<Slot>();
  slot->comm = comm;
  slot->abort = group.abort_;
  const auto bytes = static_cast<std::size_t>(memory.size().value());
  if (kind == Memory::registered) {
    check(ncclCommRegister(comm, memory.get(), bytes, &slot->handle), "ncclCommRegister");
  } else {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    require(register_window_call() != nullptr && deregister_window_call() != nullptr, "NCCL has symmetric windows");
    check(register_window_call()(comm, memory.get(), bytes, &slot->window, NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister");
#else
    require(false, "NCCL has symmetric windows");
#endif
  }
  slot_ = std::move(slot);
}

void Registration::require_handle() const {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  if (slot_->window != nullptr) return;
#endif
  if (slot_->handle != nullptr) return;
  throw impossible_error("a buffer for communication", "NCCL registers no such memory on these devices",
                         "type --buffers plain");
}

Registration::Registration(const Group& group, Rank rank, const DeviceMemory& memory, Memory kind) {
  enter(group, rank, memory, kind);
  require_handle();
}

Registration::~Registration() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(slot_->abort->mutex);
  if (slot_->abort->aborted) return;  // aborting a communicator frees what was registered with it
  const KeepDevice keep;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  if (slot_->window != nullptr) {
    release(deregister_window_call()(slot_->comm, slot_->window), "ncclCommWindowDeregister");
  }
#endif
  if (slot_->handle != nullptr) release(ncclCommDeregister(slot_->comm, slot_->handle), "ncclCommDeregister");
}

std::vector<Registration> register_all(const Group& group,
                                       const std::vector<std::pair<Rank, const DeviceMemory*>>& memory, Memory kind) {
  const KeepDevice keep;
  std::vector<Registration> registrations;
  registrations.reserve(memory.size());
  GroupCall call;
  for (const auto& [rank, buffer] : memory) {
    const RankScope scope(rank);
    Registration one;
    one.enter(group, rank, *buffer, kind);
    registrations.push_back(std::move(one));
  }
  call.end();
  for (const Registration& one : registrations) one.require_handle();
  return registrations;
}

// ---- the session's communicators ------------------------------------------------------------------------------------

struct Communicators::State {
  struct Made {
    std::vector<Rank> members;
    CommConfig config;
    std::map<Rank, ncclComm_t> local;
  };

  World* world = nullptr;
  Rank first;
  std::vector<Device> devices;
  std::vector<std::unique_ptr<Made>> made;  // in the order in which they were made
  std::map<std::pair<std::vector<Rank>, CommConfig>, Group> groups;
  // Its mutex is also that of `made` and what it points to, against abort() and asynchronous_error().
  std::shared_ptr<AbortState> abort = std::make_shared<AbortState>();

  [[nodiscard]] const Device* device_of(Rank rank) const {
    const std::int64_t local = std::int64_t{rank.value} - first.value;
    return local >= 0 && local < static_cast<std::int64_t>(devices.size()) ? &devices[static_cast<std::size_t>(local)]
                                                                           : nullptr;
  }

  const Made& find_or_make(const std::vector<Rank>& members, const CommConfig& config) {
    for (const auto& one : made) {
      if (one->members == members && one->config == config) return *one;
    }
    auto one = std::make_unique<Made>(Made{members, config, {}});
    const ncclUniqueId id = shared_id(*world);
    initialise(*one, id);
    const std::lock_guard lock(abort->mutex);
    if (abort->aborted) {  // while it was made
      abort_all(*one);
      throw aborted_error("a communicator");
    }
    made.push_back(std::move(one));
    return *made.back();
  }

  // All local members in one group: each waits for the others.
  void initialise(Made& one, const ncclUniqueId& id) const {
    const KeepDevice keep;
    ncclConfig_t config = nccl_config(one.config);
    try {
      GroupCall call;
      for (std::size_t i = 0; i < one.members.size(); ++i) {
        const Device* device = device_of(one.members[i]);
        if (device == nullptr) continue;
        const RankScope scope(one.members[i]);
        make_current(*device);
        ncclComm_t& comm = one.local[one.members[i]];
        check(ncclCommInitRankConfig(&comm, static_cast<int>(one.members.size()), id, static_cast<int>(i), &config),
              "ncclCommInitRankConfig");
      }
      call.end();
    } catch (...) {
      for (const auto& [rank, comm] : one.local) {
        if (comm != nullptr) forgive(ncclCommAbort(comm));
      }
      throw;
    }
  }

  // Waits for the other members, so all of one process go together. Whether all was well.
  static bool finalise(const Made& one) noexcept {
    const ncclResult_t started = ncclGroupStart();
    release(started, "ncclGroupStart");
    if (started != ncclSuccess) return false;
    bool well = true;
    for (const auto& [rank, comm] : one.local) {
      const ncclResult_t status = ncclCommFinalize(comm);
      release(status, "ncclCommFinalize");
      well = well && status == ncclSuccess;
    }
    const ncclResult_t ended = ncclGroupEnd();
    release(ended, "ncclGroupEnd (ncclCommFinalize)");
    return well && ended == ncclSuccess;
  }

  static void abort_all(const Made& one) noexcept {
    const ncclResult_t started = ncclGroupStart();
    release(started, "ncclGroupStart");
    for (const auto& [rank, comm] : one.local) release(ncclCommAbort(comm), "ncclCommAbort");
    if (started == ncclSuccess) release(ncclGroupEnd(), "ncclGroupEnd (ncclCommAbort)");
  }
};

Communicators::Communicators(World& world, Rank first, std::vector<Device> devices)
    : state_(std::make_unique<State>()) {
  state_->world = &world;
  state_->first = first;
  state_->devices = std::move(devices);
}

Communicators::~Communicators() {
  const State& s = *state_;
  if (s.abort->aborted) return;
  // What failed cannot be finalised: that would wait for work that never ends.
  if (!asynchronous_error().empty()) {
    abort();
    return;
  }
  const KeepDevice keep;
  for (const auto& one : s.made) {
    if (one->local.empty()) continue;
    if (State::finalise(*one)) {
      for (const auto& [rank, comm] : one->local) release(ncclCommDestroy(comm), "ncclCommDestroy");
    } else {
      State::abort_all(*one);  // what cannot be finalised is not waited for
    }
  }
}

const Group& Communicators::get(const std::vector<Rank>& members, const CommConfig& config) {
  State& s = *state_;
  if (s.abort->aborted) throw aborted_error("a communicator");
  const auto known = s.groups.find({members, config});
  if (known != s.groups.end()) return known->second;
  const CommConfig wanted = communicator_config(config, has_call_config());
  const State::Made& made = s.find_or_make(members, wanted);
  Group group;
  group.members_ = members;
  group.config_ = config;
  group.channels_by_call_ = wanted.channels != config.channels && !config.copy_engine ? config.channels : 0;
  group.local_ = made.local;
  group.abort_ = s.abort;
  return s.groups.emplace(std::pair(members, config), std::move(group)).first->second;
}

std::string Communicators::asynchronous_error() const noexcept {
  const State& s = *state_;
  try {
    if (s.abort->aborted) return "the communicators were aborted";
    const std::lock_guard lock(s.abort->mutex);
    if (s.abort->aborted) return "the communicators were aborted";
    for (const auto& one : s.made) {
      for (const auto& [rank, comm] : one->local) {
        ncclResult_t error = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(comm, &error);
        const ncclResult_t status = asked != ncclSuccess ? asked : error;
        if (status == ncclSuccess || status == ncclInProgress) continue;
        return fmt::format("rank {} of a communicator of {}: {} ({})", rank.value, one->members.size(),
                           ncclGetErrorString(status),
                           asked != ncclSuccess ? "of ncclCommGetAsyncError itself" : "by ncclCommGetAsyncError");
      }
    }
    return {};
  } catch (...) {  // no memory for the words
    return "an asynchronous error";
  }
}

void Communicators::abort() noexcept {
  State& s = *state_;
  const bool first = !s.abort->aborted.exchange(true);
  const std::lock_guard lock(
      s.abort->mutex);  // who comes second waits for the first: then what they used can be released
  if (!first) return;
  const KeepDevice keep;
  for (const auto& one : s.made) {
    if (!one->local.empty()) State::abort_all(*one);
  }
}

// ---- operations
// -------------------------------------------------------------------------------------------------------

namespace {

ncclComm_t local_comm(const Group& group, Rank rank) {
  if (group.aborted()) throw aborted_error("communication");
  const ncclComm_t comm = group.of(rank);
  require(comm != nullptr, "communication is enqueued for a local member of its group");
  return comm;
}

struct Call {
  ncclComm_t comm;
  std::size_t whole;  // elements of the whole array
  std::size_t part;   // of a rank's part
  ncclDataType_t type;
  const void* send;
  void* receive;
  cudaStream_t stream;
};

void enqueue_plain(const Group& group, const Collective& c, const Call& call) {
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      return check(ncclAllReduce(call.send, call.receive, call.whole, call.type, ncclSum, call.comm, call.stream),
                   "ncclAllReduce");
    case CollectiveKind::all_gather:
      return check(ncclAllGather(call.send, call.receive, call.part, call.type, call.comm, call.stream),
                   "ncclAllGather");
    case CollectiveKind::reduce_scatter:
      return check(ncclReduceScatter(call.send, call.receive, call.part, call.type, ncclSum, call.comm, call.stream),
                   "ncclReduceScatter");
    case CollectiveKind::broadcast:
      return check(ncclBroadcast(call.send, call.receive, call.whole, call.type, c.root, call.comm, call.stream),
                   "ncclBroadcast");
    case CollectiveKind::all_to_all: break;
  }
  if (all_to_all_call() != nullptr) {
    return check(all_to_all_call()(call.send, call.receive, call.part, call.type, call.comm, call.stream),
                 "ncclAlltoAll");
  }
  const auto bytes = call.part * static_cast<std::size_t>(size_of(c.dtype).value());
  GroupCall together;
  for (std::size_t peer = 0; peer < group.members().size(); ++peer) {
    const int other = static_cast<int>(peer);
    check(ncclSend(static_cast<const std::byte*>(call.send) + peer * bytes, call.part, call.type, other, call.comm,
                   call.stream),
          "ncclSend (all_to_all)");
    check(ncclRecv(static_cast<std::byte*>(call.receive) + peer * bytes, call.part, call.type, other, call.comm,
                   call.stream),
          "ncclRecv (all_to_all)");
  }
  together.end();
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
void enqueue_configured(const Collective& c, const Call& call, const ncclCollConfig_t& config) {
  const ConfiguredCalls& nccl = configured_calls();
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      return check(
          nccl.all_reduce(call.send, call.receive, call.whole, call.type, ncclSum, call.comm, call.stream, &config),
          "ncclAllReduceConfig");
    case CollectiveKind::all_gather:
      return check(nccl.all_gather(call.send, call.receive, call.part, call.type, call.comm, call.stream, &config),
                   "ncclAllGatherConfig");
    case CollectiveKind::reduce_scatter:
      return check(
          nccl.reduce_scatter(call.send, call.receive, call.part, call.type, ncclSum, call.comm, call.stream, &config),
          "ncclReduceScatterConfig");
    case CollectiveKind::broadcast:
      return check(
          nccl.broadcast(call.send, call.receive, call.whole, call.type, c.root, call.comm, call.stream, &config),
          "ncclBroadcastConfig");
    case CollectiveKind::all_to_all:
      return check(nccl.all_to_all(call.send, call.receive, call.part, call.type, call.comm, call.stream, &config),
                   "ncclAlltoAllConfig");
  }
}
#endif

}  // namespace

void enqueue_collective(const Group& group, Rank rank, const Collective& collective, const void* send, void* receive,
                        cudaStream_t stream, cudaEvent_t all_blocks_began) {
  const auto whole = static_cast<std::size_t>(collective.count);
  const Call call{.comm = local_comm(group, rank),
                  .whole = whole,
                  .part = whole / group.members().size(),
                  .type = type_of(collective.dtype),
                  .send = send,
                  .receive = receive,
                  .stream = stream};
  require(all_blocks_began == nullptr || has_launch_completion(), "NCCL records when a collective's blocks began");
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
  if (group.channels_by_call() > 0 || all_blocks_began != nullptr) {
    return enqueue_configured(collective, call, call_config(group.channels_by_call(), all_blocks_began));
  }
#endif
  enqueue_plain(group, collective, call);
}

void enqueue_exchange(const Group& group, Rank rank, const Exchange& exchange, const std::vector<void*>& memory,
                      const std::vector<std::int64_t>& counts, cudaStream_t stream) {
  const ncclComm_t comm = local_comm(group, rank);
  const ncclDataType_t type = type_of(exchange.dtype);
  GroupCall together;
  for (std::size_t i = 0; i < exchange.transfers.size(); ++i) {
    const Transfer& t = exchange.transfers[i];
    const auto count = static_cast<std::size_t>(counts.at(i));
    if (t.direction == Direction::send) {
      check(ncclSend(memory.at(i), count, type, t.peer, comm, stream), "ncclSend");
    } else {
      check(ncclRecv(memory.at(i), count, type, t.peer, comm, stream), "ncclRecv");
    }
  }
  together.end();
}

}  // namespace ovl::cuda
