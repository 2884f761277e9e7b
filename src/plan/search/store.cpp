#include "plan/search/store.h"

#include <algorithm>

namespace plimsoll::plan {
namespace {

constexpr Bytes kSmallest = 64 * KiB;  // below this a transfer costs more than the memory is worth

struct Shares {
  double state, weights, values;
};
constexpr Shares kShares[] = {{0.5, 0, 0}, {1, 0, 0},   {0, 0, 0.5}, {0, 0, 1},
                              {1, 0, 1},   {1, 0.5, 0}, {1, 1, 0},   {1, 1, 1}};
constexpr Shares kFinerShares[] = {{0.125, 0, 0}, {0.25, 0, 0},  {0.375, 0, 0}, {0.625, 0, 0},
                                   {0.75, 0, 0},  {0.875, 0, 0}, {1, 0.125, 0}, {1, 0.25, 0},
                                   {1, 0.375, 0}, {1, 0.625, 0}, {1, 0.75, 0},  {1, 0.875, 0}};

class Lister {
 public:
  Lister(const Problem& problem, const Limits& limits, const Split& split)
      : problem_(problem), limits_(limits), samples_(problem.micro_batch > 0 ? problem.micro_batch : limits.batch) {
    const bool in_micro_batches = problem.micro_batch > 0 && problem.micro_batch < limits.batch;
    std::vector<bool> is_fixed(problem.buffers.size(), false);
    std::vector<int32_t> writers(problem.buffers.size(), 0);
    ns_.assign(problem.buffers.size(), 0);
    for (size_t t = 0; t < problem.tasks.size(); ++t) {
      const Task& task = problem.tasks[t];
      for (const auto* list : {&task.writes, &task.updates})
        for (const BufferId id : *list) {
          ++writers[id];
          ns_[id] = cost_ns(task, samples_);
          // Buffers that all micro-batches share, or that stay alive beside them, can't be stored.
          if (in_micro_batches &&
              (list == &task.writes ? split.when[t] != Split::When::Inside || split.is_sum[id] : false))
            is_fixed[id] = true;
        }
      if (!in_micro_batches || split.when[t] != Split::When::Before) continue;
      for (const auto* list : {&task.reads, &task.writes, &task.updates})
        for (const BufferId id : *list) is_fixed[id] = true;
    }
    for (size_t b = 0; b < problem.buffers.size(); ++b) {
      const Buffer& buffer = problem.buffers[b];
      if (is_fixed[b] || bytes_of(b) < kSmallest) continue;
      if (buffer.kind == BufferKind::Variable) (buffer.tag == Tag::Optimiser ? state_ : weights_).push_back(b);
      if (buffer.kind == BufferKind::Temporary && !buffer.is_collected && writers[b] == 1) values_.push_back(b);
    }
    const auto larger = [&](size_t a, size_t b) { return bytes_of(a) > bytes_of(b); };
    std::stable_sort(state_.begin(), state_.end(), larger);
    std::stable_sort(weights_.begin(), weights_.end(), larger);
    sort_values();
  }

  std::vector<Stored> run(Stores which) {
    std::vector<Stored> stores{nothing()};
    if (which == Stores::Finer && (limits_.stored || !limits_.levers.spill)) return {};
    if (limits_.stored) {
      for (const BufferId id : *limits_.stored) put(stores[0].variables, static_cast<size_t>(id), stores[0]);
      return stores;
    }
    if (!limits_.levers.spill) return stores;
    for (const auto& [state, weights, values] : kShares) {
      if (which == Stores::Few && state + weights < 2) continue;
      add(store(state, weights, values), stores);
    }
    if (which != Stores::Finer) return stores;
    const size_t coarse = stores.size();
    for (const auto& [state, weights, values] : kFinerShares) {
      Stored stored = store(state, weights, values);
      if (resident_bytes(stored) + limits_.staging_bytes <= limits_.bytes) add(std::move(stored), stores);
    }
    stores.erase(stores.begin(), stores.begin() + static_cast<ptrdiff_t>(coarse));
    return stores;
  }

 private:
  // Adds the choice unless it is already there, or too large for the disk.
  void add(Stored stored, std::vector<Stored>& stores) const {
    const bool is_known = std::any_of(stores.begin(), stores.end(), [&](const Stored& other) {
      return other.variables == stored.variables && other.values == stored.values;
    });
    if (!is_known && stored.bytes <= limits_.disk_bytes) stores.push_back(std::move(stored));
  }

  // Variables that stay in memory.
  Bytes resident_bytes(const Stored& stored) const {
    Bytes bytes = 0;
    for (size_t b = 0; b < problem_.buffers.size(); ++b)
      if (problem_.buffers[b].kind == BufferKind::Variable && !stored.variables[b]) bytes += bytes_of(b);
    return bytes;
  }

  Bytes bytes_of(size_t b) const { return placed_bytes(problem_.buffers[b], samples_); }

  // With recomputation allowed, only values that take longer to recompute than to save and load, those with the most
  // time per byte first; else all, the largest first.
  void sort_values() {
    constexpr double kBytesPerSecond = 0.5e9;  // there and back, on an ordinary disk
    const auto worth = [&](size_t b) {
      const auto bytes = static_cast<double>(bytes_of(b));
      return limits_.levers.recompute ? ns_[b] / (bytes / kBytesPerSecond * 1e9) : bytes;
    };
    if (limits_.levers.recompute)
      values_.erase(std::remove_if(values_.begin(), values_.end(), [&](size_t b) { return worth(b) < 1; }),
                    values_.end());
    std::stable_sort(values_.begin(), values_.end(), [&](size_t a, size_t b) { return worth(a) > worth(b); });
  }

  Stored nothing() const {
    Stored stored;
    stored.variables.assign(problem_.buffers.size(), false);
    stored.values.assign(problem_.buffers.size(), false);
    return stored;
  }

  void put(std::vector<bool>& flags, size_t b, Stored& stored) const {
    flags[b] = true;
    stored.bytes += round_up(placed_bytes(problem_.buffers[b], limits_.batch), kDiskBlock);
  }

  Stored store(double state, double weights, double values) const {
    Stored stored = nothing();
    const auto take = [&](const std::vector<size_t>& list, double share, std::vector<bool>& flags) {
      Bytes total = 0, taken = 0;
      for (const size_t b : list) total += bytes_of(b);
      for (const size_t b : list) {
        if (static_cast<double>(taken) >= share * static_cast<double>(total)) break;
        taken += bytes_of(b);
        put(flags, b, stored);
      }
    };
    take(state_, state, stored.variables);
    take(weights_, weights, stored.variables);
    take(values_, values, stored.values);
    return stored;
  }

  const Problem& problem_;
  const Limits& limits_;
  const int64_t samples_;
  std::vector<double> ns_;                        // by buffer: of the task that makes it
  std::vector<size_t> state_, weights_, values_;  // in the order they are stored
};

}  // namespace

std::vector<Stored> list_stores(const Problem& problem, const Limits& limits, const Split& split, Stores which) {
  return Lister(problem, limits, split).run(which);
}

}  // namespace plimsoll::plan
