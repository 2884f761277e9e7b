// Random tables whose halves have other orders of columns, and some of the classes: a half scores what its names say,
// whichever verb reads it.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "random/choices.h"
#include "support/disk_folder.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kLabel = "kind";
constexpr const char* kFlags = "-b 6 --threads 1";

std::vector<size_t> draw_order(Choices& c, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[i - 1 - c.below(i)]);
  return order;
}

struct Table {
  size_t columns;  // without the label
  std::vector<std::string> classes;

  // Rows of the classes of these numbers, in turns. A class is known by its column, and not always.
  std::vector<std::string> write(const std::string& path, const std::vector<size_t>& order,
                                 const std::vector<size_t>& of, int64_t rows, uint64_t seed) const {
    std::vector<std::string> labels;
    std::ofstream file(path);
    const auto write_row = [&](const auto& cell) {
      for (size_t i = 0; i < order.size(); ++i)
        file << (i > 0 ? "," : "") << (order[i] == columns ? cell(columns) : cell(order[i]));
      file << "\n";
    };
    write_row([&](size_t column) { return column == columns ? std::string(kLabel) : fmt::format("c{}", column); });
    for (int64_t row = 0; row < rows; ++row) {
      const size_t kind = of[static_cast<size_t>(row) % of.size()];
      labels.push_back(classes[kind]);
      write_row([&](size_t column) {
        if (column == columns) return classes[kind];
        const double noise = unit_real(mix_bits(seed, static_cast<uint64_t>(row) * 16 + column));
        return fmt::format("{:.3f}", 2 * noise + (column == kind % columns ? 1.0 + static_cast<double>(kind) : 0.0));
      });
    }
    return labels;
  }
};

nlohmann::json event_of(const std::string& command, const std::string& event) {
  const Outcome outcome = run_program(command);
  if (outcome.exit_code != 0) throw Violation("the command ends well", command + "\n" + outcome.errors);
  return outcome.event(event);
}

// The share of the rows whose predicted class is their label.
double predicted_accuracy(const std::string& command, const std::string& file, const std::vector<std::string>& labels) {
  const Outcome outcome = run_program(command);
  if (outcome.exit_code != 0) throw Violation("the command ends well", command + "\n" + outcome.errors);
  std::ifstream rows(file);
  std::string line;
  std::getline(rows, line);
  size_t right = 0, count = 0;
  for (; std::getline(rows, line); ++count) {
    std::istringstream cells(line);
    std::string sample, kind;
    std::getline(std::getline(cells, sample, ','), kind, ',');
    right += count < labels.size() && labels[count] == kind ? 1 : 0;
  }
  if (count != labels.size()) throw Violation("each row is predicted", fmt::format("{} of {}", count, labels.size()));
  return static_cast<double>(right) / static_cast<double>(count);
}

void expect_same_scores(Choices& c) {
  const DiskFolder folder;
  const auto in = [&](const char* name) { return static_cast<const std::string&>(folder) + "/" + name; };
  Table table;
  table.columns = static_cast<size_t>(c.between(2, 5));
  std::vector<std::string> names{"no", "yes", "perhaps", "never"};
  names.resize(static_cast<size_t>(c.between(2, 4)));
  for (const size_t i : draw_order(c, names.size())) table.classes.push_back(names[i]);
  std::vector<size_t> all(names.size()), some;
  std::iota(all.begin(), all.end(), 0);
  for (const size_t kind : draw_order(c, names.size()))
    if (some.empty() || c.chance(50)) some.push_back(kind);
  const std::vector<size_t> order = draw_order(c, table.columns + 1), other = draw_order(c, table.columns + 1);
  table.write(in("train.csv"), order, all, c.pick({40, 24, 61}), 1);
  const std::vector<std::string> labels = table.write(in("test.csv"), other, some, c.pick({16, 5, 23}), 2);
  const auto epochs = c.pick({2, 8});
  c.note(fmt::format("{} columns, {} of {} classes, {} epochs", table.columns, some.size(), names.size(), epochs));
  const double trained =
      event_of(fmt::format("train mlp --width 8 --lr 0.02 {} --data {} --val {} --label {} --epochs {} --json "
                           "--progress none --save-model {}",
                           kFlags, in("train.csv"), in("test.csv"), kLabel, epochs, in("net")),
               "end")
          .value("test_accuracy", -1.0);
  const double evaluated =
      event_of(fmt::format("eval {} {} --data {} --label {} --json", in("net"), kFlags, in("test.csv"), kLabel), "eval")
          .value("accuracy", -1.0);
  const double predicted = predicted_accuracy(
      fmt::format("predict {} {} --data {} --output {}", in("net"), kFlags, in("test.csv"), in("p.csv")), in("p.csv"),
      labels);
  if (std::abs(trained - predicted) > 1e-6 || std::abs(evaluated - predicted) > 1e-6)
    throw Violation("a half scores what its names say",
                    fmt::format("in training {}, by eval {}, of the predicted rows {}", trained, evaluated, predicted));
  c.count("halves scored");
}

TEST(RandomHalves, ScoreWhatTheirNamesSay) { expect_law({8, 0.03, 120, 60}, expect_same_scores); }

}  // namespace
}  // namespace plimsoll::testing
