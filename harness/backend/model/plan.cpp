// SPDX-License-Identifier: Apache-2.0
#include "backend/model/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "backend/model/costs.hpp"
#include "backend/model/exposure.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "program/alike.hpp"

namespace ovl::model {
namespace {

// Whether all groups that the members of a class are in lie alike on the fabric: on as many units of every level.
bool equal_shapes(const Program& program, const Rates& rates, const RankTable& where) {
  const std::vector<FabricLevel> fabric = fabric_of(rates);
  if (fabric.size() == 1) return true;
  for (const RankClass& c : program.classes) {
    for (std::size_t k = 0; k < program.communicators.size() && !c.members.empty(); ++k) {
      const auto& groups = program.communicators[k].groups;
      const std::size_t first = where.group_of(k, c.members.front());
      if (first == RankTable::nowhere) continue;
      const std::vector<int> units = shape_of(fabric, groups[first]).units;
      std::vector<bool> seen(groups.size());
      for (const Rank rank : c.members) {
        const std::size_t g = where.group_of(k, rank);
        if (seen[g]) continue;
        seen[g] = true;
        if (shape_of(fabric, groups[g]).units != units) return false;
      }
    }
  }
  return true;
}

// Where units share what leaves them: whether all of them that have ranks of a class have equally many of every class.
// Then one stands for all, and so does one rank of a class for those of its unit.
bool equal_units(const Program& program, const Rates& rates, const RankTable& where) {
  const std::vector<FabricLevel> fabric = fabric_of(rates);
  for (std::size_t i = 1; i < fabric.size(); ++i) {
    if (fabric[i].oversubscription <= 1) continue;
    std::map<int, std::vector<int>> units;  // ranks of each class in them
    for (int r = 0; r < program.ranks; ++r) {
      std::vector<int>& ranks = units[unit_of(fabric[i - 1], Rank(r))];
      ranks.resize(program.classes.size());
      ++ranks[where.class_of(Rank(r))];
    }
    std::vector<const std::vector<int>*> first(program.classes.size(), nullptr);
    for (const auto& [unit, ranks] : units) {
      for (std::size_t c = 0; c < ranks.size(); ++c) {
        if (ranks[c] == 0) continue;
        if (first[c] == nullptr) first[c] = &ranks;
        if (*first[c] != ranks) return false;
      }
    }
  }
  return true;
}

Bytes bytes_of(const Program& program, const std::vector<Slice>& slices) {
  Bytes sum;
  for (const Slice& s : slices) sum += size_of(program.buffers[s.buffer.index()].dtype) * s.count;
  return sum;
}

Bytes moved(const Moved& stream, const Engine& engine) {
  if (stream.flow < 0) return stream.bytes;
  return Bytes(std::llround(engine.done(stream.flow) * stream.rate.value()));
}

int priority_of(const Lane& lane) { return lane.priority == Priority::high ? 1 : 0; }

}  // namespace

std::vector<Player> players_of(const Program& program, const Rates& rates) {
  const RankTable where(program);
  std::vector<Player> players;
  if (rates.skew == 0 && members_are_alike(program, where) && equal_shapes(program, rates, where) &&
      equal_units(program, rates, where)) {
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      if (!program.classes[c].members.empty()) players.push_back({c, program.classes[c].members});
    }
    return players;
  }
  for (int r = 0; r < program.ranks; ++r) players.push_back({where.class_of(Rank(r)), {Rank(r)}});
  return players;
}

// Walks the lists of all players in issue order and adds what they do to a graph. Order alone takes no node but where
// several predecessors meet.
class PlanBuilder {
 public:
  PlanBuilder(Plan& plan, const Program& program, const Rates& rates, bool live)
      : plan_(plan), program_(program), rates_(rates), live_(live), where_(program), fabric_(fabric_of(rates)) {
    for (std::size_t p = 0; p < plan.players_.size(); ++p) {
      for (const Rank rank : plan.players_[p].members) {
        player_of_.resize(std::max(player_of_.size(), rank.index() + 1));
        player_of_[rank.index()] = p;
      }
    }
    comm_units_wanted();
    for (std::size_t p = 0; p < plan.players_.size(); ++p) walk(p);
    for (const auto& [key, meeting] : meetings_) add_collective(meeting);
    for (const auto& [key, message] : messages_) add_message(message);
    for (const std::string& how : hows_) plan.how_ += (plan.how_.empty() ? "" : ", ") + how;
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  using Preds = std::vector<Index>;

  // Both directions of a device's link to a level, or of what leaves a unit for one; -1: never short.
  struct Link {
    Index out = -1, in = -1;
  };
  struct Device {
    Index memory = -1;
    std::vector<Link> links;  // by level
    Index compute_signal = -1, comm_signal = -1;
    Index compute_pool = -1, comm_pool = -1, copy_pool = -1;
    int compute_units = 0, comm_units = 0;
  };
  struct Meeting {
    const Collective* collective = nullptr;
    std::span<const Rank> group;
    std::vector<Index> operations;
    std::vector<std::size_t> players;
  };
  struct Message {
    Index send = -1;
    Index receive = -1;
    std::size_t from = 0;
    std::size_t to = 0;
    Rank from_rank;
    Rank to_rank;
    Bytes bytes;
  };

  // ---- devices -----------------------------------------------------------------------------------------------------

  int units_of(const Communicator& comm) const {
    if (rates_.units == 0 || comm.transport == "copy") return 0;
    return std::min(rates_.units, comm.channels > 0 ? comm.channels : rates_.comm_units);
  }

  void comm_units_wanted() {
    for (const Communicator& comm : program_.communicators) {
      plan_.comm_units_ = std::max(plan_.comm_units_, units_of(comm));
    }
  }

  Device make_device() {
    Device d;
    if (!std::isnan(rates_.memory.value())) d.memory = graph_.resource();
    for (const FabricLevel& level : fabric_) {
      Link& link = d.links.emplace_back();
      if (!std::isnan(level.link.bandwidth.value())) link = {graph_.resource(), graph_.resource()};
    }
    if (rates_.compute_slowdown > 1 || rates_.comm_slowdown > 1) {
      d.compute_signal = graph_.signal();
      d.comm_signal = graph_.signal();
    }
    d.copy_pool = graph_.pool(std::max(1, rates_.copy_engines));
    if (rates_.units == 0) return d;
    const bool apart = std::any_of(program_.lanes.begin(), program_.lanes.end(),
                                   [](const Lane& l) { return l.partition == Partition::by_role; });
    // Communication gets what it asks for, compute the rest; each at least one.
    const int comm = std::clamp(plan_.comm_units_, 1, std::max(1, rates_.units - 1));
    d.compute_units = apart ? std::max(1, rates_.units - comm) : rates_.units;
    d.comm_units = apart ? comm : rates_.units;
    d.compute_pool = graph_.pool(d.compute_units);
    d.comm_pool = apart ? graph_.pool(d.comm_units) : d.compute_pool;
    return d;
  }

  // Memory and interference of an operation on one device. What was measured as a slowdown already contains what
  // sharing memory costs.
  void add_shares(const Device& d, const Cost& cost, Role role) {
    if (d.compute_signal >= 0) {
      const bool compute = role == Role::compute;
      shares_.push_back({compute ? d.compute_signal : d.comm_signal, 1, 1});
      shares_.push_back({compute ? d.comm_signal : d.compute_signal, 0,
                         std::max(1.0, compute ? rates_.compute_slowdown : rates_.comm_slowdown)});
    } else if (d.memory >= 0) {
      shares_.push_back({d.memory, cost.memory, 1});
    }
  }
  // The links of a player on the way, and what its units have to a level that cannot take all of them at once. Its
  // members in one unit do the same at the same time.
  void add_links(std::size_t p, const Cost& cost, bool out, bool in) {
    const auto add = [&](const Link& link, double amount) {
      if (out && link.out >= 0) shares_.push_back({link.out, amount, 1});
      if (in && link.in >= 0) shares_.push_back({link.in, amount, 1});
    };
    for (std::size_t i = 0; i < cost.links.size(); ++i) {
      add(devices_[p].links[i], cost.links[i]);
      if (i == 0 || fabric_[i].oversubscription <= 1) continue;
      const FabricLevel& below = fabric_[i - 1];
      const std::vector<Rank>& members = plan_.players_[p].members;
      const int unit = unit_of(below, members.front());
      const auto alike =
          std::count_if(members.begin(), members.end(), [&](Rank rank) { return unit_of(below, rank) == unit; });
      const auto [found, fresh] = uplinks_.try_emplace({i, unit});
      if (fresh) found->second = {graph_.resource(), graph_.resource()};
      add(found->second, cost.links[i] * static_cast<double>(alike) * fabric_[i].oversubscription / below.ranks);
    }
  }

  // ---- one player --------------------------------------------------------------------------------------------------

  struct LaneState {
    Preds after;                      // what the next operation follows
    std::vector<Index> start_events;  // that its beginning fires
  };

  void walk(std::size_t p) {
    const Player& player = plan_.players_[p];
    pace_ = skewed(player.members.front());
    const RankClass& c = program_.classes[player.rank_class];
    devices_.push_back(make_device());
    std::vector<LaneState> lanes(program_.lanes.size());
    std::vector<Preds> recorded(program_.events.size());
    Index host = -1;  // where the host stands
    timed_ = false;
    auto& played = plan_.operations_.emplace_back();
    for (const Operation& op : c.body) {
      LaneState& lane = lanes[op.lane.index()];
      if (const auto* record = std::get_if<Record>(&op.work)) {
        Preds& preds = recorded[record->event.index()];
        if (record->moment == Moment::start) {
          preds = {graph_.operation()};
          lane.start_events.push_back(preds.front());
        } else {
          join(lane.after);
          preds = lane.after;
        }
      } else if (const auto* wait = std::get_if<Wait>(&op.work)) {
        const Preds& preds = recorded[wait->event.index()];
        lane.after.insert(lane.after.end(), preds.begin(), preds.end());
      } else if (std::holds_alternative<HostSync>(op.work)) {
        const Index sync = graph_.operation();
        if (host >= 0) graph_.after(host, sync);
        for (LaneState& l : lanes) {
          for (const Index before : l.after) graph_.after(before, sync);
          l.after = {sync};
        }
        host = sync;
      } else {
        const Index handed = hand_over(op, host);
        const Index node = add_work(p, op);
        for (const Index before : lane.after) graph_.after(before, node);
        follow_on_communicator(p, op, node);
        if (handed >= 0) graph_.after(handed, node);
        for (const Index event : lane.start_events) graph_.after_begin(node, event);
        lane.start_events.clear();
        lane.after = {node};
        played.push_back({op.id, op.lane, op.role, node, handed, streams_[node]});
      }
    }
    for (const auto& [flow, event] : endings_) {
      const Preds& last = recorded[event.index()];
      graph_.ends(last.empty() ? graph_.operation() : last.front(), flow);
    }
    endings_.clear();
  }

  // Lanes that share a communicator use it in issue order.
  void follow_on_communicator(std::size_t p, const Operation& op, Index node) {
    CommId comm;
    if (const auto* c = std::get_if<Collective>(&op.work)) comm = c->comm;
    if (const auto* e = std::get_if<Exchange>(&op.work)) comm = e->comm;
    if (!comm.valid()) return;
    auto& [lane, last] = last_on_[{p, comm.index()}];
    if (lane.valid() && lane != op.lane) graph_.after(last, node);
    lane = op.lane;
    last = node;
  }

  // Several predecessors become one, so that edges stay linear in the list.
  void join(Preds& preds) {
    if (preds.size() < 2) return;
    const Index node = graph_.operation();
    for (const Index before : preds) graph_.after(before, node);
    preds = {node};
  }

  // The host hands over one operation after another, none before its time; -1: everything before the clock starts.
  Index hand_over(const Operation& op, Index& host) {
    if (op.not_before) {
      const Index due = graph_.operation();
      const Index members[] = {due};
      graph_.flow(op.not_before->value(), members);
      if (host >= 0) {
        const Index both = graph_.operation();
        graph_.after(host, both);
        graph_.after(due, both);
        host = both;
      } else {
        host = due;
      }
      timed_ = true;
    }
    if (rates_.launch.value() <= 0 || !live_) return timed_ ? host : -1;
    const Index node = graph_.operation();
    const Index members[] = {node};
    graph_.flow(rates_.launch.value(), members);
    if (host >= 0) graph_.after(host, node);
    host = node;
    return node;
  }

  // How many times as long as others this rank computes.
  double skewed(Rank rank) const {
    if (rates_.skew == 0) return 1;
    return 1 + rates_.skew * (2 * Random(mix64(rates_.seed) ^ mix64(rank.index())).uniform() - 1);
  }
  double pace_of(const Operation& op) const { return op.role == Role::compute ? pace_ : 1; }

  Index add_work(std::size_t p, const Operation& op) {
    if (const auto* g = std::get_if<Gemm>(&op.work)) return add_gemm(p, op, *g);
    if (const auto* c = std::get_if<Collective>(&op.work)) return meet(p, op, *c);
    if (const auto* e = std::get_if<Exchange>(&op.work)) return exchange(p, op, *e);
    if (const auto* b = std::get_if<Busy>(&op.work)) {
      const Index node = graph_.operation();
      const Index members[] = {node};
      graph_.flow(b->duration.value() * pace_of(op), members);
      return node;
    }
    if (std::holds_alternative<Elementwise>(op.work)) {
      // Reads everything, and what it adds to; writes that.
      const Bytes bytes = bytes_of(program_, op.reads) + bytes_of(program_, op.writes) * 2;
      return add_memory(p, op, memory_cost(rates_, "elementwise", bytes));
    }
    if (std::holds_alternative<Copy>(op.work)) {
      return add_memory(p, op, memory_cost(rates_, "copy", bytes_of(program_, op.reads) * 2));
    }
    if (const auto* o = std::get_if<Occupy>(&op.work)) return occupy(p, op, *o);
    if (const auto* s = std::get_if<Stream>(&op.work)) return stream(p, op, *s);
    throw impossible_error(fmt::format("{} in the body", kind_name(op.work)), "it belongs in the prologue or epilogue",
                           "");
  }

  Index add_gemm(std::size_t p, const Operation& op, const Gemm& gemm) {
    const Device& d = devices_[p];
    GemmCost g = gemm_cost(rates_, gemm);
    for (Seconds* time : {&g.cost.time, &g.wave, &g.block, &g.kernel}) *time = *time * pace_of(op);
    Units units;
    if (g.units > 0) {
      const bool comm = op.role == Role::communication;
      const int wanted = std::min(g.units, comm ? d.comm_units : d.compute_units);
      if (wanted < g.units) confine(g, wanted, gemm.repeat);
      units = {.pool = comm ? d.comm_pool : d.compute_pool,
               .wanted = wanted,
               .holds = false,
               .priority = priority_of(program_.lanes[op.lane.index()]),
               .block = g.block.value(),
               .kernel = g.kernel.value(),
               .tiles = g.tiles,
               .unit_work = g.wave.value()};
    }
    const Index node = graph_.operation(units);
    shares_.clear();
    add_shares(d, g.cost, op.role);
    const Index members[] = {node};
    graph_.flow(g.cost.time.value(), members, shares_);
    return node;
  }

  // On fewer units than the device has, a partition's, it takes longer all the time.
  void confine(GemmCost& g, int units, std::int64_t repeat) const {
    const auto waves = static_cast<double>((g.tiles + units - 1) / units);
    const Seconds before = g.cost.time;
    g.cost.time = std::max(before, g.wave * waves + rates_.kernel * static_cast<double>(repeat));
    g.cost.memory *= before / g.cost.time;
    g.kernel = g.cost.time / static_cast<double>(repeat);
    g.block = g.kernel / waves;
  }

  // Bound by memory alone, whatever units it gets.
  Index add_memory(std::size_t p, const Operation& op, const Cost& cost) {
    const Index node = graph_.operation();
    shares_.clear();
    add_shares(devices_[p], cost, op.role);
    const Index members[] = {node};
    graph_.flow(cost.time.value() * pace_of(op), members, shares_);
    return node;
  }

  // Units held from beginning to end, those of its role's partition. None where the machine's are not known.
  Index holding(std::size_t p, const Operation& op, int wanted, std::string_view what) {
    const Device& d = devices_[p];
    const bool comm = op.role == Role::communication;
    if (rates_.units == 0) return graph_.operation();
    const int most = comm ? d.comm_units : d.compute_units;
    if (wanted > most) {
      throw impossible_error(fmt::format("{} of {} SMs", what, wanted),
                             fmt::format("its part of the machine has {}", most), "ask for fewer");
    }
    return graph_.operation({.pool = comm ? d.comm_pool : d.compute_pool,
                             .wanted = wanted,
                             .holds = true,
                             .priority = priority_of(program_.lanes[op.lane.index()])});
  }

  Index occupy(std::size_t p, const Operation& op, const Occupy& o) {
    const Index node = holding(p, op, o.count, "occupy");
    shares_.clear();
    lasting(node, o.duration, o.until);
    return node;
  }

  // At its pace it takes that part of the memory; without one, all that it gets.
  Index stream(std::size_t p, const Operation& op, const Stream& s) {
    const bool endless = s.until.valid();
    const Bytes bytes = endless ? bytes_of(program_, op.reads) * 2 : s.bytes;
    const Cost cost = memory_cost(rates_, "stream", bytes);
    const BytesPerSecond most = bytes / cost.time;
    const BytesPerSecond rate = s.pace.value() > 0 ? std::min(s.pace, most) : most;
    const Index node = holding(p, op, s.workers, "stream");
    shares_.clear();
    add_shares(devices_[p], {.time = bytes / rate, .memory = cost.memory * (rate / most)}, op.role);
    const Index flow = lasting(node, bytes / rate, s.until);
    streams_[node] = {endless ? flow : -1, bytes, rate};
    return node;
  }

  // One flow over the shares under construction, of that duration or until the event.
  Index lasting(Index node, Seconds duration, EventId until) {
    const Index members[] = {node};
    if (!until.valid()) return graph_.flow(duration.value(), members, shares_);
    const Index flow = graph_.endless(members, shares_);
    endings_.emplace_back(flow, until);
    return flow;
  }

  // ---- meetings ----------------------------------------------------------------------------------------------------

  // A communicating operation holds its units from its beginning on, also while it waits for its peers.
  Index communicating(std::size_t p, const Operation& op, CommId comm) {
    const Communicator& communicator = program_.communicators[comm.index()];
    const Device& d = devices_[p];
    const int priority = priority_of(program_.lanes[op.lane.index()]);
    if (communicator.transport == "copy") {
      return graph_.operation({.pool = d.copy_pool, .wanted = 1, .holds = true, .priority = priority});
    }
    const int wanted = std::min(units_of(communicator), d.comm_units);
    if (wanted == 0) return graph_.operation();
    return graph_.operation({.pool = d.comm_pool, .wanted = wanted, .holds = true, .priority = priority});
  }

  // The same for all members of a player: the classes of its group, in order.
  std::size_t group_id(std::size_t p, CommId comm) {
    const Rank rank = plan_.players_[p].members.front();
    const std::size_t g = where_.group_of(comm.index(), rank);
    std::vector<std::size_t> players;
    for (const Rank other : program_.communicators[comm.index()].groups[g])
      players.push_back(player_of_[other.index()]);
    return groups_.try_emplace({comm.index(), std::move(players)}, groups_.size()).first->second;
  }

  Index meet(std::size_t p, const Operation& op, const Collective& collective) {
    const Index node = communicating(p, op, collective.comm);
    const std::size_t id = group_id(p, collective.comm);
    const int place = places_[{p, collective.comm.index()}]++;
    Meeting& m = meetings_[{id, place}];
    m.collective = &collective;
    const Rank rank = plan_.players_[p].members.front();
    m.group = program_.communicators[collective.comm.index()].groups[where_.group_of(collective.comm.index(), rank)];
    m.operations.push_back(node);
    m.players.push_back(p);
    return node;
  }

  void add_collective(const Meeting& m) {
    const Cost cost = collective_cost(rates_, *m.collective, m.group);
    const bool copy = program_.communicators[m.collective->comm.index()].transport == "copy";
    if (!cost.how.empty()) {
      const std::string how = copy ? "copy engine" : cost.how;
      if (std::find(hows_.begin(), hows_.end(), how) == hows_.end()) hows_.push_back(how);
    }
    shares_.clear();
    for (const std::size_t p : m.players) {
      add_shares(devices_[p], cost, Role::communication);
      add_links(p, cost, true, true);
    }
    graph_.flow(cost.time.value(), m.operations, shares_);
  }

  Index exchange(std::size_t p, const Operation& op, const Exchange& e) {
    const Index node = communicating(p, op, e.comm);
    const std::size_t id = group_id(p, e.comm);
    const Rank rank = plan_.players_[p].members.front();
    const auto& group = program_.communicators[e.comm.index()].groups[where_.group_of(e.comm.index(), rank)];
    std::size_t read = 0;
    for (const Transfer& t : e.transfers) {
      const Rank peer_rank = group[static_cast<std::size_t>(t.peer)];
      const std::size_t peer = player_of_[peer_rank.index()];
      const bool send = t.direction == Direction::send;
      const auto [from, to] = send ? std::pair(p, peer) : std::pair(peer, p);
      const int place = messages_so_far_[{id, from, to, send}]++;
      Message& m = messages_[{id, from, to, place}];
      m.from = from;
      m.to = to;
      if (send) {
        m.send = node;
        m.from_rank = rank;
        m.to_rank = peer_rank;
        m.bytes = size_of(e.dtype) * op.reads[read++].count;
      } else {
        m.receive = node;
      }
    }
    return node;
  }

  void add_message(const Message& m) {
    require(m.send >= 0 && m.receive >= 0, "a message has two ends");
    const Cost cost = message_cost(rates_, m.bytes, m.from_rank, m.to_rank);
    shares_.clear();
    add_shares(devices_[m.from], cost, Role::communication);
    add_links(m.from, cost, true, false);
    if (m.to != m.from) {
      add_shares(devices_[m.to], cost, Role::communication);
      add_links(m.to, cost, false, true);
    }
    std::vector<Index> ends{m.send};
    if (m.receive != m.send) ends.push_back(m.receive);
    graph_.flow(cost.time.value(), ends, shares_);
  }

  Plan& plan_;
  const Program& program_;
  const Rates& rates_;
  bool live_;
  double pace_ = 1;     // of the player under construction
  bool timed_ = false;  // likewise: its host has waited for a time
  RankTable where_;
  std::vector<FabricLevel> fabric_;
  std::map<std::pair<std::size_t, int>, Link> uplinks_;  // of a level, and the unit below it
  Graph graph_;
  std::vector<std::size_t> player_of_;  // by rank
  std::vector<Device> devices_;         // by player
  std::vector<Share> shares_;           // of the flow under construction
  std::map<std::pair<std::size_t, std::vector<std::size_t>>, std::size_t> groups_;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<LaneId, Index>> last_on_;
  std::vector<std::pair<Index, EventId>> endings_;             // endless flows of the player under construction
  std::map<Index, Moved> streams_;                             // by operation
  std::map<std::pair<std::size_t, std::size_t>, int> places_;  // collectives so far, of player and communicator
  std::map<std::pair<std::size_t, int>, Meeting> meetings_;    // by group and place
  std::map<std::tuple<std::size_t, std::size_t, std::size_t, bool>, int> messages_so_far_;
  std::map<std::tuple<std::size_t, std::size_t, std::size_t, int>, Message> messages_;
  std::vector<std::string> hows_;
};

Plan::Plan(const Program& program, const Rates& rates, bool live)
    : players_(players_of(program, rates)), ranks_(program.ranks), lanes_(program.lanes.size()), name_(program.name) {
  const PlanBuilder builder(*this, program, rates, live);
  engine_.emplace(builder.graph());
}

Timings Plan::play(Recording recording) {
  Engine& engine = *engine_;
  std::vector<RateChange> changes;
  engine.note(recording == Recording::operations ? &changes : nullptr);
  engine.play();
  engine.note(nullptr);
  Timings timings;
  timings.start_source = "model";
  timings.ranks.resize(static_cast<std::size_t>(ranks_));
  std::map<Role, double> first;
  for (std::size_t p = 0; p < players_.size(); ++p) {
    double end = 0;
    std::vector<LaneTiming> lanes(lanes_);
    for (const Played& o : operations_[p]) {
      const double ended = engine.ended(o.operation);
      if (std::isnan(ended)) {
        throw failure(fmt::format("the model of {} stands still", name_),
                      fmt::format("%{} of rank {} never finishes: it waits for something that never comes", o.id.value,
                                  players_[p].members.front().value));
      }
      LaneTiming& lane = lanes[o.lane.index()];
      lane.lane = o.lane;
      if (std::isnan(lane.start.value())) lane.start = Seconds(engine.begun(o.operation));
      lane.end = Seconds(ended);
      if (o.moved.bytes.value() > 0) lane.moved = lane.moved.value_or(Bytes(0)) + moved(o.moved, engine);
      end = std::max(end, ended);
      const auto [role, fresh] = first.try_emplace(o.role, engine.begun(o.operation));
      if (!fresh) role->second = std::min(role->second, engine.begun(o.operation));
    }
    std::erase_if(lanes, [](const LaneTiming& lane) { return !lane.lane.valid(); });
    for (const Rank rank : players_[p].members) timings.ranks[rank.index()] = {rank, Seconds(0), Seconds(end), lanes};
  }
  const bool told = first.size() == 2 && first[Role::communication] != first[Role::compute];
  timings.launch_order = !told                                               ? "unverified"
                         : first[Role::communication] < first[Role::compute] ? "comm_first"
                                                                             : "compute_first";
  if (recording == Recording::spans) return timings;
  std::vector<ExplainedPlayer> explained;
  for (std::size_t p = 0; p < players_.size(); ++p) {
    ExplainedPlayer& player = explained.emplace_back(players_[p].members.front());
    for (const Played& o : operations_[p]) player.operations.push_back({o.id, o.role, o.operation});
  }
  timings.exposed = exposed_time(engine, changes, explained);
  for (std::size_t p = 0; p < players_.size(); ++p) {
    for (const Rank rank : players_[p].members) {
      for (const Played& o : operations_[p]) {
        timings.operations.push_back({.rank = rank,
                                      .op = o.id,
                                      .lane = o.lane,
                                      .enqueued = Seconds(o.handed < 0 ? 0 : engine.ended(o.handed)),
                                      .ready = Seconds(engine.ready(o.operation)),
                                      .start = Seconds(engine.started(o.operation)),
                                      .end = Seconds(engine.ended(o.operation))});
      }
    }
  }
  return timings;
}

}  // namespace ovl::model
