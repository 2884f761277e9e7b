#include "plan/check/exchanges.h"

#include <numeric>
#include <optional>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plimsoll::plan {
namespace {

// One exchange of a list. `peer` -1: with all ranks.
struct ListedExchange {
  int peer = -1;
  std::string sent, received, name;
};

std::string describe(const ListedExchange& one) {
  if (one.peer < 0) return fmt::format("adds up '{}' with all ranks", one.name);
  return fmt::format("sends {} and receives {} bytes in '{}'", one.sent, one.received, one.name);
}

std::vector<ListedExchange> parse_list(const std::string& text) {
  std::vector<ListedExchange> list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    ListedExchange one;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "peer") {
      words >> one.peer >> word >> one.sent >> word >> one.received;
      std::getline(words >> std::ws, one.name);
    } else {
      one.name = line;
    }
    list.push_back(one);
  }
  return list;
}

class ExchangeReplay {
 public:
  explicit ExchangeReplay(std::span<const std::string> lists) : next_(lists.size(), 0) {
    for (const std::string& text : lists) lists_.push_back(parse_list(text));
  }

  std::string run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t rank = 0; rank < lists_.size(); ++rank)
        while (take(rank)) moves = true;
      if (take_all()) moves = true;
    }
    // Two ranks at exchanges with each other that do not match are the cause; others only wait for them.
    for (size_t rank = 0; rank < lists_.size(); ++rank)
      if (faces(rank)) return describe_stop(rank);
    for (size_t rank = 0; rank < lists_.size(); ++rank)
      if (current(rank) != nullptr) return describe_stop(rank);
    return "";
  }

 private:
  const ListedExchange* current(size_t rank) const {
    return next_[rank] < lists_[rank].size() ? &lists_[rank][next_[rank]] : nullptr;
  }

  // Whether the rank and its peer are both at an exchange with each other.
  bool faces(size_t rank) const {
    const ListedExchange* const mine = current(rank);
    if (mine == nullptr || mine->peer < 0 || static_cast<size_t>(mine->peer) >= lists_.size()) return false;
    const ListedExchange* const theirs = current(static_cast<size_t>(mine->peer));
    return static_cast<size_t>(mine->peer) != rank && theirs != nullptr && theirs->peer == static_cast<int>(rank);
  }

  // Completes an exchange that both ranks are at.
  bool take(size_t rank) {
    if (!faces(rank)) return false;
    const ListedExchange* const mine = current(rank);
    const auto peer = static_cast<size_t>(mine->peer);
    const ListedExchange* const theirs = current(peer);
    if (mine->sent != theirs->received || mine->received != theirs->sent) return false;
    ++next_[rank];
    ++next_[peer];
    return true;
  }

  // Completes an exchange that all ranks are at.
  bool take_all() {
    for (size_t rank = 0; rank < lists_.size(); ++rank) {
      const ListedExchange* const one = current(rank);
      if (one == nullptr || one->peer >= 0 || one->name != current(0)->name) return false;
    }
    for (size_t& next : next_) ++next;
    return !lists_.empty();
  }

  std::string describe_stop(size_t rank) const {
    const ListedExchange& mine = *current(rank);
    std::string text = fmt::format("exchange {} of rank {} ({}) meets none", next_[rank], rank, describe(mine));
    if (mine.peer < 0) return text + " on another rank";
    if (static_cast<size_t>(mine.peer) >= lists_.size()) return text + fmt::format(": there is no rank {}", mine.peer);
    const auto peer = static_cast<size_t>(mine.peer);
    const ListedExchange* const theirs = current(peer);
    if (theirs == nullptr) return text + fmt::format(": rank {} has no more", peer);
    return text + fmt::format(": exchange {} of rank {} {}{}", next_[peer], peer, describe(*theirs),
                              theirs->peer >= 0 ? fmt::format(" with rank {}", theirs->peer) : "");
  }

  std::vector<std::vector<ListedExchange>> lists_;
  std::vector<size_t> next_;
};

}  // namespace

std::string list_exchanges(const Problem& problem, const Plan& plan) {
  const int64_t samples = std::accumulate(plan.micro_batches.begin(), plan.micro_batches.end(), int64_t{0});
  const auto bytes_of = [&](const std::vector<BufferId>& ids) {
    std::vector<Bytes> bytes;
    for (const BufferId id : ids)
      bytes.push_back(problem.buffers[id].fixed_bytes + problem.buffers[id].per_sample_bytes * samples);
    return bytes.empty() ? std::string("0") : fmt::format("{}", fmt::join(bytes, ","));
  };
  std::string text;
  for (const Action& action : plan.actions) {
    if (action.task >= static_cast<TaskId>(problem.tasks.size())) continue;
    const Task& task = problem.tasks[action.task];
    if (task.lane != Lane::Network) continue;
    if (task.peer >= 0) {
      text += fmt::format("peer {} sends {} receives {} {}\n", task.peer, bytes_of(task.reads), bytes_of(task.writes),
                          task.name);
      continue;
    }
    Bytes bytes = 0;
    for (const BufferId id : task.updates) bytes += problem.buffers[id].fixed_bytes;
    text += fmt::format("{} {}\n", task.name, bytes);
  }
  return text;
}

std::string find_unmatched(std::span<const std::string> lists) { return ExchangeReplay(lists).run(); }

}  // namespace plimsoll::plan
