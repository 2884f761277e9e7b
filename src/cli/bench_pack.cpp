// plimsoll bench pack: offsets for a table of lifetimes and sizes.
#include <chrono>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/verbs.h"
#include "memory/file.h"
#include "memory/output_file.h"
#include "plan/pack/pack.h"
#include "plan/pack/pack_csv.h"

namespace plimsoll::cli {
namespace {

// Enough effort for all known hard tables; ends within seconds on tables without a known solution.
constexpr plan::PackBudget kEffort{.scans = 2'000'000'000, .nodes = 20'000'000};

}  // namespace

int run_bench_pack(const PackArguments& arguments) {
  memory::File::open(arguments.file);  // refuses what is no regular file, where a stream would wait
  std::ifstream in(arguments.file);
  if (!in) throw Error(fmt::format("'{}' can't be opened", arguments.file), ErrorKind::BadData);
  plan::PackTable table;
  try {
    table = plan::read_packing_csv(in);
  } catch (const Error& e) {
    throw Error(fmt::format("'{}': {}", arguments.file, e.what()), ErrorKind::BadData);
  }
  const auto started = std::chrono::steady_clock::now();
  const plan::Packing packing = arguments.capacity > 0 ? pack_into(table.items, 1, arguments.capacity, kEffort)
                                                       : pack(table.items, 1, 0, kEffort);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  fmt::print("{} buffers · lower bound {} · height {} ({:.4f} x) · {:.2f} s\n", table.items.size(), packing.lower_bound,
             packing.height, static_cast<double>(packing.height) / static_cast<double>(packing.lower_bound), seconds);
  if (!arguments.out.empty()) {
    std::ostringstream text;
    write_packing_csv(text, table, packing);
    memory::OutputFile out(arguments.out);
    out.write(text.view());
    out.finish();
  }
  if (arguments.capacity > 0 && packing.height > arguments.capacity)
    throw Error(fmt::format("does not fit: needs {} of {}, {} too much", packing.height, arguments.capacity,
                            packing.height - arguments.capacity),
                ErrorKind::DoesNotFit);
  return 0;
}

}  // namespace plimsoll::cli
