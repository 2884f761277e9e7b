// Kernels beside the best that a library or a plain copy reaches at the same sizes, in the same process, by turns.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/random.h"
#include "kernel_rivals.h"
#include "memory/arena.h"

namespace plimsoll {
namespace {

using namespace memory;

using namespace kernels;
using namespace plan;

constexpr double kLeastShare = 0.02;   // of a step, for a kernel to have a row
constexpr double kSeconds = 0.4;       // of each row, all rivals together
constexpr int kRounds = 3;             // at least
constexpr double kShortestNs = 100e3;  // shorter runs are repeated within one measurement
constexpr double kProductGoal = 0.85, kCopyGoal = 0.80;

struct Result {
  const KernelRow* row;
  double ours_ns = 0;
  double percent = 0;  // median over the rounds
  std::string rival;
  double memory_percent = 0;  // of memory's speed; not set for products
};

double now_ns() {
  return static_cast<double>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size()) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Memory for the operands of one row at a time, touched once and used again for each row.
class Memory {
 public:
  explicit Memory(Bytes bytes) : arena_(bytes) { arena_.commit(bytes); }
  void clear() { used_ = 0; }
  std::byte* take(Bytes bytes) {
    std::byte* at = arena_.data() + used_;
    used_ += round_up(std::max<Bytes>(bytes, 1), 4096) + 4096 + 64 * 5;  // not all at the same place of a page
    used_ = round_up(used_, 64);
    if (used_ > arena_.committed()) throw std::bad_alloc();
    fill(reinterpret_cast<float*>(at), bytes / 4);
    return at;
  }
  // Numbers from 0.01 to 1, repeated.
  static void fill(float* to, int64_t count) {
    constexpr int64_t kPattern = 4099;
    for (int64_t i = 0; i < std::min(kPattern, count); ++i)
      to[i] = 0.01F + static_cast<float>(i * 7919 % 9973) / 10000.0F;
#pragma omp parallel for
    for (int64_t at = kPattern; at < count; at += kPattern)
      std::memcpy(to + at, to, static_cast<size_t>(std::min(kPattern, count - at)) * sizeof(float));
  }

 private:
  Arena arena_;
  Bytes used_ = 0;
};

std::byte* make_operand(Memory& memory, const RowOperand& operand) {
  std::byte* at = memory.take(operand.bytes);
  if (operand.constant != nullptr) {
    std::memcpy(at, operand.constant->data(), operand.constant->size());
  } else if (operand.dtype == DType::I32) {
    for (int64_t i = 0; i < operand.bytes / 4; ++i) {
      const auto number = static_cast<int32_t>(mix_bits(static_cast<uint64_t>(i)) %
                                               static_cast<uint64_t>(std::max<int64_t>(1, operand.below)));
      std::memcpy(at + i * 4, &number, 4);
    }
  } else if (operand.dtype != DType::F32) {
    std::memset(at, operand.dtype == DType::Bool ? 1 : 0, static_cast<size_t>(operand.bytes));
  }
  return at;
}

Rival make_ours(const KernelRow& row, Memory& memory) {
  struct Bound {
    std::vector<const void*> in;
    std::vector<void*> out;
    std::byte* workspace;
    StepState state;
  };
  auto bound = std::make_shared<Bound>();
  for (const RowOperand& operand : row.in) bound->in.push_back(make_operand(memory, operand));
  for (const RowOperand& operand : row.out) bound->out.push_back(make_operand(memory, operand));
  bound->workspace = memory.take(row.workspace_bytes);
  return {"ours", [bound, kernel = row.kernel] {
            kernel->run({bound->in.data(), bound->out.data(), bound->workspace, &bound->state});
          }};
}

// How often to run within one measurement.
int64_t repeats_of(const Rival& rival) {
  rival.run();
  const double before = now_ns();
  rival.run();
  return std::max<int64_t>(1, static_cast<int64_t>(kShortestNs / std::max(1.0, now_ns() - before)));
}

// The first run is not counted: rivals leave their own data in the caches.
double measure_ns(const Rival& rival, int64_t repeats) {
  rival.run();
  const double before = now_ns();
  for (int64_t i = 0; i < repeats; ++i) rival.run();
  return (now_ns() - before) / static_cast<double>(repeats);
}

Result measure(const KernelRow& row, Memory& memory, benchmark::State& state) {
  memory.clear();
  std::vector<Rival> all{make_ours(row, memory)};
  for (Rival& rival : make_rivals(row, [&](Bytes bytes) { return memory.take(bytes); }))
    all.push_back(std::move(rival));
  std::vector<int64_t> repeats;
  for (const Rival& rival : all) repeats.push_back(repeats_of(rival));
  std::vector<std::vector<double>> ns(all.size());
  for (auto _ : state) {
    const double started = now_ns();
    for (int round = 0; round < kRounds || (now_ns() - started < kSeconds * 1e9 && round < 200); ++round)
      for (size_t i = 0; i < all.size(); ++i) ns[i].push_back(measure_ns(all[i], repeats[i]));
    state.SetIterationTime(median(ns[0]) / 1e9);
  }
  const auto percent_of = [&](size_t rival) {
    std::vector<double> ratios;
    for (size_t round = 0; round < ns[0].size(); ++round) ratios.push_back(ns[rival][round] / ns[0][round]);
    return 100 * row.products * all[rival].share * median(ratios);
  };
  if (row.limit == Limit::Copy) return {&row, median(ns[0]), percent_of(1), all[1].name, percent_of(2)};
  // Against the library that is best in the median.
  size_t best = 1;
  for (size_t i = 2; i < all.size(); ++i)
    if (median(ns[i]) < median(ns[best])) best = i;
  return {&row, median(ns[0]), percent_of(best), all[best].name};
}

Bytes memory_for(const KernelRow& row) {
  Bytes bytes = 64 * KiB * 32 + row.workspace_bytes;
  for (const auto* list : {&row.in, &row.out})
    for (const RowOperand& operand : *list) bytes += operand.bytes;
  return row.limit == Limit::Copy ? bytes + static_cast<Bytes>(row.bytes) + kMemoryBytes + 16 * MiB : 4 * bytes;
}

bool is_below_goal(const Result& result) {
  return result.row->limit == Limit::Copy ? result.memory_percent < 100 * kCopyGoal
                                          : result.percent < 100 * kProductGoal;
}

double flops_of(const KernelRow& row) {
  return row.limit == Limit::Product ? row.product.flops() * row.products : row.convolution.flops();
}

// "152.3 GFLOP/s" or "21.0 GB/s": what runs in so many nanoseconds.
std::string speed_text(const KernelRow& row, double ns) {
  return row.limit == Limit::Copy ? fmt::format("{:.1f} GB/s", row.bytes / ns)
                                  : fmt::format("{:.1f} GFLOP/s", flops_of(row) / ns);
}

void print_table(const std::vector<Result>& results) {
  fmt::print("\n{:<31} {:<44} {:>9} {:>15} {:>15} {:>8} {:>7} {:>8}  {}\n", "operator", "shape", "ms", "ours", "limit",
             "of", "percent", "memory %", "runs in a step");
  int below = 0;
  for (const Result& result : results) {
    const KernelRow& row = *result.row;
    const bool is_below = is_below_goal(result);
    below += is_below ? 1 : 0;
    const std::string memory = row.limit == Limit::Copy ? fmt::format("{:.0f}", result.memory_percent) : "";
    std::string runs;
    for (const auto& [name, count] : row.runs)
      if (name != "operators") runs += fmt::format("{}{} x{}", runs.empty() ? "" : ", ", name, count);
    fmt::print("{:<31} {:<44} {:>9.3f} {:>15} {:>15} {:>8} {:>7.0f} {:>8} {} {}\n", row.op, row.shape.substr(0, 44),
               result.ours_ns / 1e6, speed_text(row, result.ours_ns),
               speed_text(row, result.ours_ns * result.percent / 100), result.rival, result.percent, memory,
               is_below ? "<" : " ", runs);
  }
  fmt::print(
      "{} of {} below the goal ({:.0f} % of a library for products and convolutions, {:.0f} % of the speed at which "
      "memory is copied for the rest)\n",
      below, results.size(), 100 * kProductGoal, 100 * kCopyGoal);
}

int run(int argc, char** argv) {
  // --filter is the benchmark library's flag with a shorter name.
  std::vector<std::string> words(argv, argv + argc);
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--filter" && i + 1 < words.size()) {
      words[i] = "--benchmark_filter=" + words[i + 1];
      words.erase(words.begin() + static_cast<int64_t>(i) + 1);
    } else if (words[i].starts_with("--filter=")) {
      words[i] = "--benchmark_" + words[i].substr(2);
    }
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;

  const KernelRows found = collect_kernel_rows(kLeastShare);
  Bytes most = 0;
  for (const KernelRow& row : found.rows) most = std::max(most, memory_for(row));
  Memory memory(most);
  std::vector<Result> results;
  for (const KernelRow& row : found.rows)
    benchmark::RegisterBenchmark((row.op + "/" + row.shape).c_str(),
                                 [&](benchmark::State& state) {
                                   results.push_back(measure(row, memory, state));
                                   state.counters["percent"] = results.back().percent;
                                 })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  if (!has_openblas())
    fmt::print("\nOpenBLAS was not found (Debian: libopenblas0-openmp): products are measured against oneDNN alone\n");
  print_table(results);
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  try {
    return plimsoll::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_kernels: {}\n", e.what());
    return 1;
  }
}
