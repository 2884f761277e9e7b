#include "report/summary.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "report/words.h"

namespace plimsoll::report {
namespace {

// Titles of the columns: weights as a number, then bytes.
constexpr std::array kNumberTitles{"weights", "bytes", "gradients", "optimiser", "kept", "recomputed", "spilled"};
constexpr size_t kSpilled = kNumberTitles.size() - 1;

using Cells = std::array<std::string, kNumberTitles.size()>;

Cells cells_of(const LayerRow& row) {
  const auto bytes = [](Bytes count) { return count == 0 ? std::string("-") : format_bytes(count); };
  const int64_t weights = row.weights + row.untrained;
  return {weights == 0 ? "-" : grouped_text(weights),
          bytes(row.weight_bytes),
          bytes(row.gradient_bytes),
          bytes(row.optimiser_bytes),
          bytes(row.kept_bytes),
          bytes(row.recomputed_bytes),
          bytes(row.spilled_bytes)};
}

LayerRow total_of(const std::vector<LayerRow>& layers) {
  LayerRow total{.name = "total"};
  for (const LayerRow& row : layers) {
    total.weights += row.weights;
    total.untrained += row.untrained;
    total.weight_bytes += row.weight_bytes;
    total.gradient_bytes += row.gradient_bytes;
    total.optimiser_bytes += row.optimiser_bytes;
    total.kept_bytes += row.kept_bytes;
    total.recomputed_bytes += row.recomputed_bytes;
    total.spilled_bytes += row.spilled_bytes;
  }
  return total;
}

}  // namespace

std::string summary_text(const SummaryFacts& facts) {
  std::vector<LayerRow> rows = facts.layers;
  const LayerRow total = total_of(rows);
  rows.push_back(total);
  const size_t columns = total.spilled_bytes > 0 ? kSpilled + 1 : kSpilled;
  size_t names = std::string_view("layer").size(), outputs = std::string_view("output").size();
  std::array<size_t, kNumberTitles.size()> widths{};
  for (size_t i = 0; i < columns; ++i) widths[i] = std::string_view(kNumberTitles[i]).size();
  for (const LayerRow& row : rows) {
    names = std::max(names, row.name.size());
    outputs = std::max(outputs, row.output.size());
    const Cells cells = cells_of(row);
    for (size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text = facts.title + fmt::format("{:<{}}  {:<{}}", "layer", names, "output", outputs);
  for (size_t i = 0; i < columns; ++i) text += fmt::format("  {:>{}}", kNumberTitles[i], widths[i]);
  for (const LayerRow& row : rows) {
    text += fmt::format("\n{:<{}}  {:<{}}", row.name, names, row.output, outputs);
    const Cells cells = cells_of(row);
    for (size_t i = 0; i < columns; ++i) text += fmt::format("  {:>{}}", cells[i], widths[i]);
  }
  text += '\n';
  if (total.untrained > 0)
    text += fmt::format("{} of these numbers are trained, {} are statistics\n", grouped_text(total.weights),
                        grouped_text(total.untrained));
  if (facts.micro_batch < facts.batch)
    text += fmt::format("values are those of {} samples, one micro-batch\n", facts.micro_batch);
  return text + facts.notes;
}

}  // namespace plimsoll::report
