#include "shrink/quantise.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "fit/compiled.h"
#include "fit/own_model.h"
#include "kernels/int8_convolution.h"
#include "lower/lower.h"
#include "memory/process.h"
#include "model/model_state.h"
#include "shrink/int8_weights.h"

namespace plimsoll {
namespace shrink {
namespace {

// What the variables of an inference pass take in the layouts of its kernels.
Bytes weight_bytes(const model::TracedPass& pass, int64_t batch) {
  lower::VariableLayouts layouts;
  lower::KernelStore kernels;
  std::vector<ValueId> outputs;
  for (const auto& [name, id] : pass.outputs) outputs.push_back(id);
  lower::LowerOptions options;
  options.batch = batch;
  options.gives_feeds = true;
  const lower::Program program = lower::lower(pass.graph->body(), outputs, {}, options, layouts, kernels);
  Bytes bytes = 0;
  for (const lower::Port& variable : program.variables) bytes += variable.type.bytes();
  return bytes;
}

// Data of another shape would make another model of the same layers.
void expect_same_model(const ModelSpec& spec, const model::TracedModel& traced, const std::string& weights) {
  std::map<std::string, weights::StoredTensor> stored;
  weights::WeightsReader(weights).for_each([&](const weights::StoredTensor& tensor) { stored[tensor.name] = tensor; });
  for (const weights::StoredTensor& wanted : store::list_weights(traced)) {
    const auto found = stored.find(wanted.name);
    if (found != stored.end() && found->second.dims == wanted.dims) continue;
    throw Error(
        fmt::format("calibration data of {} does not suit the trained model '{}': tensor '{}' would be {}{} but "
                    "is {}; give data of the shape that it was trained on",
                    to_string(spec.input()), spec.name(), wanted.name, name_of(wanted.dtype), to_string(wanted.dims),
                    found == stored.end() ? "missing" : to_string(found->second.dims)),
        ErrorKind::BadData);
  }
}

QuantisedLayer layer_of(const Int8Graph& graph, const Int8Unit& unit) {
  const graph::Body& body = graph.body();
  std::string name(body.name(body.value(unit.kernel)));
  name = name.substr(0, name.find_last_of('/'));
  if (name.starts_with(graph.pass->scope)) name.erase(0, graph.pass->scope.size());
  return {name, std::string(body.node(unit.anchor).op->name), unit.is_int8};
}

}  // namespace

store::WeightsSource QuantisedModel::weights() const {
  const auto tensors = std::make_shared<const std::vector<weights::StoredTensor>>(store::list_weights(*traced));
  return {.tensors =
              [tensors](const weights::VisitTensor& visit) {
                for (const weights::StoredTensor& tensor : *tensors) visit(tensor);
              },
          .write =
              [from = numbers, plan = plan](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
                if (!from->write(tensor.name, put)) from->copy(tensor.name, put);
              }};
}

Bytes bytes_to_quantise(const std::string& weights) {
  // More than inference runs; measured.
  constexpr Bytes kCodeBytes = 11 * MiB / 2;
  Bytes largest = 0;
  weights::WeightsReader(weights).for_each(
      [&](const weights::StoredTensor& tensor) { largest = std::max(largest, tensor.bytes); });
  return kCodeBytes + std::min(largest, Int8Weights::kPieceBytes);
}

QuantisedModel quantise_model(const ModelSpec& spec, const std::string& weights, const QuantiseOptions& options,
                              const RunModel& run, Bytes line) {
  const auto plan = std::make_shared<Int8Plan>();
  plan->traced = std::make_shared<const model::TracedModel>(model::trace(spec, model::Passes::Inference));
  expect_same_model(spec, *plan->traced, weights);
  plan->graph = find_int8(plan->traced->inference, spec.batch, options.all);
  plan->full_range = options.full_range.value_or(kernels::adds_bytes_exactly());
  const Calibration calibration = calibrate(plan->traced, plan->graph, options, run);
  for (const ValueRange& range : calibration.ranges) plan->scales.push_back(scale_of(range));
  memory::drop_code_near(line);

  QuantisedModel made;
  made.plan = plan;
  made.traced = std::make_shared<const model::TracedModel>(
      model::trace(model::replay_spec(spec, plan->traced, int8_rewrite(plan)), model::Passes::Inference));
  memory::drop_code_near(line);
  made.numbers = std::make_shared<const Int8Weights>(*plan, weights);
  made.report.samples = calibration.samples;
  made.report.memory_bytes_before = weight_bytes(plan->traced->inference, spec.batch);
  made.report.memory_bytes_after = weight_bytes(made.traced->inference, spec.batch);
  memory::drop_code_near(line);
  for (const Int8Unit& unit : plan->graph.units)
    if (unit.has_weights()) made.report.layers.push_back(layer_of(plan->graph, unit));
  return made;
}

namespace {

// Model::quantise. Weights go through temporary files.
Model quantise_own(const Model& model, const Dataset& data, const MemoryLine& line, const QuantiseOptions& options,
                   QuantiseReport* report) {
  const auto floats = std::make_shared<memory::TemporaryFile>(), bytes = std::make_shared<memory::TemporaryFile>();
  floats->create(options.scratch, "plimsoll-f32");
  model.save_weights(floats->path());
  Model(model).release();  // NOLINT(performance-unnecessary-copy-initialization): the handle of a const model
  ModelSpec spec = fit::make_inference_spec(model, data.element());
  // Without its weights: whether they suit the data is compared below.
  spec.model = Model(model.name(), model.inputs(), model.outputs(), model.state()->function);
  spec.batch = std::max<int64_t>(1, input::count_batches(data).batch);
  const RunModel run = [&](Model observing, const EachBatch& each) {
    if (!each) return;  // the call itself is refused where it does not fit
    observing.load_weights(floats->path());
    observing.predict(data, line, {.sink = each});
  };
  MemoryLine held_line = line;
  const Reservation held =
      held_line.reserve(Tag::Runtime, line.covers_process() ? bytes_to_quantise(floats->path()) : 0);
  QuantisedModel made = quantise_model(spec, floats->path(), options, run, line.limit());
  bytes->create(options.scratch, "plimsoll-int8");
  const store::WeightsSource source = made.weights();
  weights::write_weights_file(bytes->path(), source.tensors, source.write);
  made.report.file_bytes_before = static_cast<Bytes>(std::filesystem::file_size(floats->path()));
  made.report.file_bytes_after = static_cast<Bytes>(std::filesystem::file_size(bytes->path()));
  if (report != nullptr) *report = made.report;

  const Model replayed = model::replay_model(made.traced);
  // The file lives as long as the model's function.
  Model small(replayed.name(), replayed.inputs(), replayed.outputs(),
              [function = replayed.state()->function, bytes](const NamedTensors& inputs, bool training) {
                return function(inputs, training);
              });
  small.state()->stored = std::make_shared<const model::StoredSource>(model::StoredSource{made.traced, {}});
  if (const fit::Compiled& compiled = fit::compiled_of(model); compiled.is_compiled())
    small.compile(compiled.options());
  small.load_weights(bytes->path());
  return small;
}

}  // namespace
}  // namespace shrink

Model Model::quantise(const Dataset& calibration, const MemoryLine& line) const {
  return shrink::quantise_own(*this, calibration, line, {}, nullptr);
}

Model Model::quantise(const Dataset& calibration, const MemoryLine& line, const QuantiseOptions& options,
                      QuantiseReport* report) const {
  return shrink::quantise_own(*this, calibration, line, options, report);
}

}  // namespace plimsoll
