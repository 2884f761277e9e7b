// plimsoll bench pack: offsets for a table of lifetimes and sizes.
#include <chrono>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/verbs.h"
#include "plan/pack.h"
#include "plan/pack_csv.h"

namespace plimsoll {
namespace {

// Effort that solves all known hard tables, and ends within seconds on those that nobody has solved.
constexpr PackBudget kEffort{.scans = 2'000'000'000, .nodes = 20'000'000};

}  // namespace

int run_bench_pack(const PackSettings& settings) {
  std::ifstream in(settings.file);
  if (!in) throw Error(fmt::format("'{}' can't be opened", settings.file), ErrorKind::BadData);
  PackTable table;
  try {
    table = read_packing_csv(in);
  } catch (const Error& e) {
    throw Error(fmt::format("'{}': {}", settings.file, e.what()), ErrorKind::BadData);
  }
  const auto started = std::chrono::steady_clock::now();
  const Packing packing =
      settings.capacity > 0 ? pack_into(table.items, 1, settings.capacity, kEffort) : pack(table.items, 1, 0, kEffort);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  fmt::print("{} buffers · lower bound {} · height {} ({:.4f} x) · {:.2f} s\n", table.items.size(), packing.lower_bound,
             packing.height, static_cast<double>(packing.height) / static_cast<double>(packing.lower_bound), seconds);
  if (!settings.out.empty()) {
    std::ofstream out(settings.out);
    write_packing_csv(out, table, packing);
    out.flush();
    if (!out) throw Error(fmt::format("'{}' can't be written", settings.out), ErrorKind::DiskFull);
  }
  if (settings.capacity > 0 && packing.height > settings.capacity)
    throw Error(fmt::format("does not fit: needs {} of {}, {} too much", packing.height, settings.capacity,
                            packing.height - settings.capacity),
                ErrorKind::DoesNotFit);
  return 0;
}

}  // namespace plimsoll
