// Predictions of a model, batch by batch.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "fit/compiled.h"
#include "memory/process.h"
#include "train/npy_file.h"
#include "train/predict.h"

namespace plimsoll {
namespace fit {
namespace {

// The number of an output; an empty name: the only one.
size_t find_output(const Model& model, const std::string& name) {
  const std::vector<std::string>& outputs = model.outputs();
  if (name.empty() && outputs.size() == 1) return 0;
  const auto found = std::find(outputs.begin(), outputs.end(), name);
  if (found == outputs.end())
    throw Error(fmt::format("predict: '{}' is not an output of model '{}'; its outputs are {}", name, model.name(),
                            fmt::join(outputs, ", ")),
                ErrorKind::Usage);
  return static_cast<size_t>(found - outputs.begin());
}

// Rows of an output over all batches.
Dims dims_of_all(const View& view, int64_t batch, int64_t samples) {
  if (view.dims.empty() || view.dims[0] != batch)
    throw Error("predict: this output is one value for the batch, not one for each sample; use a sink",
                ErrorKind::Usage);
  Dims dims = view.dims;
  dims[0] = samples;
  return dims;
}

void run_batches(const Model& model, const Dataset& dataset, const MemoryLine& line,
                 const std::function<void(const Results&, int64_t samples)>& sink) {
  // The sink may let go of the last handle.
  const Model alive = model;  // NOLINT(performance-unnecessary-copy-initialization)
  Compiled& compiled = compiled_of(model);
  const Compiled::Turn turn(compiled);
  train::Training& training = compiled.ready(call_on(dataset, line, train::Purpose::Predict));
  train::Inputs inputs(training, dataset);
  train::predict(training, inputs, sink);
  if (line.covers_process()) memory::drop_code_near(line.limit());  // closing runs other code than the steps did
}

}  // namespace
}  // namespace fit

// These change the state that copies of a Model share, so they are not const though the compiler would allow it.
// NOLINTBEGIN(readability-make-member-function-const)
void Model::predict(const Dataset& dataset, const MemoryLine& line, const PredictOptions& options) {
  if (static_cast<bool>(options.sink) == !options.npy.empty())
    throw Error("predict: give a sink or the path of an npy file", ErrorKind::Usage);
  if (options.sink) return fit::run_batches(*this, dataset, line, options.sink);
  const size_t output = fit::find_output(*this, options.output);
  const int64_t samples = input::count_batches(dataset).samples();
  if (samples < 0)
    throw Error("predict: an npy file starts with the number of samples, which this dataset does not know; use a sink",
                ErrorKind::Usage);
  std::optional<train::NpyFile> file;
  fit::run_batches(*this, dataset, line, [&](const Results& outputs, int64_t batch) {
    const View& view = outputs[output];
    if (!file) file.emplace(options.npy, view.dtype, fit::dims_of_all(view, batch, samples));
    file->write(view.data(), view.bytes);
  });
  if (!file) throw Error("predict: the dataset has no samples", ErrorKind::BadData);
  file->finish();
}

Prediction Model::predict(const Dataset& dataset, const MemoryLine& line) {
  const size_t output = fit::find_output(*this, "");
  Prediction prediction;
  int64_t samples = 0;
  fit::run_batches(*this, dataset, line, [&](const Results& outputs, int64_t batch) {
    const View& view = outputs[output];
    const std::span<const float> numbers = view.floats();
    samples += batch;
    prediction.dims = fit::dims_of_all(view, batch, samples);
    prediction.numbers.insert(prediction.numbers.end(), numbers.begin(), numbers.end());
  });
  return prediction;
}

// NOLINTEND(readability-make-member-function-const)

}  // namespace plimsoll
