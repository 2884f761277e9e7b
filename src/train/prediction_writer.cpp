#include "train/prediction_writer.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "memory/output_file.h"
#include "train/npy_file.h"

namespace plimsoll::train {
namespace {

// Row-major, of all samples.
Dims dims_of_file(const PredictionFacts& facts) { return at_batch(facts.output.shape, facts.samples); }

class NpyPredictions final : public PredictionWriter {
 public:
  NpyPredictions(const std::string& path, const PredictionFacts& facts)
      : file_(path, facts.output.dtype, dims_of_file(facts)) {}
  void write(const View& outputs) override { file_.write(outputs.data(), outputs.bytes); }
  void finish() override { file_.finish(); }

 private:
  NpyFile file_;
};

// A name that CSV would take for several fields, or for the end of a row, is quoted.
std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

// exp(x) over the sum of all, without overflow.
void make_probabilities(std::span<const float> logits, std::vector<double>& probabilities) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    sum += probabilities[i] = std::exp(static_cast<double>(logits[i]) - largest);
  for (double& one : probabilities) one /= sum;
}

class RowPredictions final : public PredictionWriter {
 public:
  RowPredictions(PutText put, bool as_json, const PredictionFacts& facts)
      : put_(std::move(put)), as_json_(as_json), facts_(facts), has_classes_(has_classes(facts)) {
    if (facts.output.shape.rank() != 2 || facts.output.dtype != DType::F32)
      throw Error(
          fmt::format("predictions of {} are no rows of numbers; give --output FILE.npy", to_string(facts.output)),
          ErrorKind::Usage);
    numbers_.resize(static_cast<size_t>(facts.output.shape[1].count()));
    if (!as_json) write_header();
  }

  void write(const View& outputs) override {
    const std::span<const float> all = outputs.floats();
    for (size_t at = 0; at < all.size(); at += numbers_.size()) write_row(all.subspan(at, numbers_.size()));
  }

 private:
  void write_header() {
    std::string line = has_classes_ ? "sample,class" : "sample";
    for (size_t i = 0; i < numbers_.size(); ++i) line += fmt::format(",{}{}", has_classes_ ? "p" : "output", i);
    put_(line + "\n");
  }

  void write_row(std::span<const float> outputs) {
    size_t best = 0;
    if (has_classes_) {
      make_probabilities(outputs, numbers_);
      best = static_cast<size_t>(std::ranges::max_element(outputs) - outputs.begin());
    } else {
      std::ranges::copy(outputs, numbers_.begin());
    }
    // A float has no more significant digits than these.
    line_.clear();
    for (size_t i = 0; i < numbers_.size(); ++i) line_ += fmt::format("{}{:.7g}", i > 0 ? "," : "", numbers_[i]);
    const std::string name = best < facts_.names.size() ? facts_.names[best] : "";
    if (!as_json_) {
      const std::string shown = name.empty() ? fmt::format("{}", best) : quoted(name);
      put_(fmt::format("{},{}{}{}\n", sample_++, has_classes_ ? shown : "", has_classes_ ? "," : "", line_));
    } else if (has_classes_) {
      put_(fmt::format("{{\"event\":\"prediction\",\"sample\":{},\"class\":{},\"probabilities\":[{}]}}\n", sample_++,
                       best, line_));
    } else {
      put_(fmt::format("{{\"event\":\"prediction\",\"sample\":{},\"outputs\":[{}]}}\n", sample_++, line_));
    }
  }

  const PutText put_;
  const bool as_json_;
  const PredictionFacts facts_;
  const bool has_classes_;
  std::vector<double> numbers_;  // of one row
  std::string line_;
  int64_t sample_ = 0;
};

class CsvPredictions final : public PredictionWriter {
 public:
  CsvPredictions(const std::string& path, const PredictionFacts& facts)
      : file_(path), rows_([this](std::string_view text) { file_.write(text); }, false, facts) {}
  void write(const View& outputs) override { rows_.write(outputs); }
  void finish() override { file_.finish(); }

 private:
  memory::OutputFile file_;
  RowPredictions rows_;
};

}  // namespace

bool has_classes(const PredictionFacts& facts) {
  return facts.classes > 1 && facts.output.shape.rank() == 2 && facts.output.shape[1].count() == facts.classes;
}

std::unique_ptr<PredictionWriter> make_prediction_file(const std::string& path, const PredictionFacts& facts) {
  if (path.ends_with(".npy")) return std::make_unique<NpyPredictions>(path, facts);
  if (path.ends_with(".csv")) return std::make_unique<CsvPredictions>(path, facts);
  throw Error(fmt::format("'{}': predictions are written to files that end with .npy or .csv", path), ErrorKind::Usage);
}

std::unique_ptr<PredictionWriter> make_prediction_rows(const PutText& put, bool as_json, const PredictionFacts& facts) {
  return std::make_unique<RowPredictions>(put, as_json, facts);
}

}  // namespace plimsoll::train
