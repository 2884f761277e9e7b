#include "train/inputs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/convert.h"
#include "input/opening/roles.h"
#include "input/recipe.h"
#include "input/stages/blocks.h"

namespace plimsoll::train {
namespace {

using Clock = std::chrono::steady_clock;

// Batches that are read ahead, beside the one in use.
constexpr int kBatchesAhead = 1;

// Bytes of images become reals in [0, 1]; label numbers become what the loss takes.
input::Conversion conversion(const Component& from, DType wanted, float byte_scale, const std::string& path) {
  input::Conversion conversion{wanted, 1, 0};
  if (from.dtype == DType::U8 && wanted == DType::F32) conversion.scale = byte_scale;
  if (from.dtype == wanted) return conversion;
  if (const std::string reason = why_not(from.dtype, conversion); !reason.empty())
    throw Error(fmt::format("'{}': {}", path, reason), ErrorKind::BadData);
  return conversion;
}

// Swaps left and right: rows of the last dimension are turned around.
void flip(std::byte* image, Bytes bytes, int64_t width, Bytes pixel) {
  const Bytes row_bytes = width * pixel;
  std::byte held[sizeof(double)];
  for (std::byte* row = image; row < image + bytes; row += row_bytes)
    for (std::byte *left = row, *right = row + row_bytes - pixel; left < right; left += pixel, right -= pixel) {
      std::memcpy(held, left, static_cast<size_t>(pixel));
      std::memcpy(left, right, static_cast<size_t>(pixel));
      std::memcpy(right, held, static_cast<size_t>(pixel));
    }
}

// Writes a sample as a step takes it.
struct Converter {
  struct Part {
    std::string path;
    input::Conversion conversion;
    int64_t flipped_width = 0;  // 0: it is not flipped
    int64_t classes = 0;        // that its whole numbers stand for; 0: none
  };
  std::vector<Part> parts;

  void operator()(const ElementView& from, const ElementSlot& to, uint64_t key) const {
    for (size_t i = 0; i < parts.size(); ++i) {
      write(from, i, parts[i], to.data(i));
      if (parts[i].classes > 0) expect_classes(parts[i], to.as<int32_t>(i));
      if (parts[i].flipped_width == 0 || key % 2 == 0) continue;
      flip(static_cast<std::byte*>(to.data(i)), to.spec()[i].bytes(), parts[i].flipped_width,
           size_of(to.spec()[i].dtype));
    }
  }

  static void expect_classes(const Part& part, std::span<const int32_t> labels) {
    for (const int32_t label : labels)
      if (label < 0 || label >= part.classes)
        throw Error(fmt::format("'{}': label {} is not in [0, {}); correct it, or give the model more classes",
                                part.path, label, part.classes),
                    ErrorKind::BadData);
  }

  static void write(const ElementView& from, size_t component, const Part& part, void* to) {
    const DType dtype = from.spec()[component].dtype;
    const Bytes bytes = from.bytes(component);
    if (dtype == part.conversion.to) {
      std::memcpy(to, from.data(component), static_cast<size_t>(bytes));
      return;
    }
    const auto bad = input::convert(dtype, from.data(component), part.conversion, to, bytes / size_of(dtype));
    if (bad)
      throw Error(fmt::format("'{}': {} does not fit into {}; give numbers of classes", part.path,
                              from.as<int64_t>(component)[static_cast<size_t>(*bad)], name_of(part.conversion.to)),
                  ErrorKind::BadData);
  }
};

// No file has elements of more than 8 bytes.
input::Samples widest_samples(const ModelSpec& model) {
  ElementSpec widest;
  const std::vector<TensorType> types = input::component_types(model);
  const std::vector<std::string> names = input::component_names(model);
  for (size_t i = 0; i < types.size(); ++i)
    widest.push_back({names[i], DType::I64, {element_count(types[i].shape).count()}, {}});
  return {Dataset::generator(widest, [] { return [](const ElementSlot&) { return false; }; }),
          std::vector<std::string>(types.size())};
}

// Components of a sample as the steps are fed.
ElementSpec fed_sample(const ElementSpec& stored, const ModelSpec& model, const std::vector<DType>& fed) {
  ElementSpec sample;
  const std::vector<std::string> names = input::component_names(model);
  const std::vector<TensorType> types = input::component_types(model);
  for (size_t i = 0; i < names.size(); ++i)
    sample.push_back({names[i], i < fed.size() ? fed[i] : types[i].dtype, stored[i].shape, {}});
  return sample;
}

bool is_fed_as_stored(const ElementSpec& stored, const ElementSpec& fed) {
  return std::ranges::equal(
      stored, fed, [](const Component& a, const Component& b) { return a.name == b.name && a.dtype == b.dtype; });
}

// The width of an input that is images; 0 for all others.
int64_t width_of_images(const ModelSpec& model, size_t component) {
  if (component >= model.inputs.size() || !input::is_image(model.inputs[component].type)) return 0;
  return model.inputs[component].type.shape[3].count();
}

std::vector<DType> types_of_feeds(const model::TrainingGraph& passes) {
  std::vector<DType> types;
  for (const auto& [name, input] : passes.inputs) types.push_back(input.dtype());
  return types;
}

// Samples of this rank.
Dataset take_shards(const Dataset& samples, const Shards& shards, int64_t batch) {
  if (samples.size() < 0) throw Error("ranks and shards need data whose number of samples is known", ErrorKind::Usage);
  if (shards.own == shards.total) return samples;
  return input::take_blocks(samples, {batch, shards.total, shards.first, shards.own, shards.stride});
}

// Replicas beside the first one take no memory for batches.
bool reads_itself(const Training& training) {
  return !training.spec.shares_batches || training.spec.communicator->rank() == 0;
}

InputOptions with_shards(InputOptions options, const Shards& shards) {
  options.shards = shards;
  return options;
}

uint64_t identity_of(const Dataset& dataset) { return input::chain_identity(*input::recipe_of(dataset)); }

uint64_t hash_of_whole(const Training& training, const input::Samples& samples, InputOptions options) {
  options.shards = {};
  return identity_of(make_batches(samples, training.model, training.spec.pipeline, types_of_feeds(training.passes),
                                  training.spec.batch, options));
}

}  // namespace

Dataset make_batches(const input::Samples& samples, const ModelSpec& model, const input::Pipeline& pipeline,
                     const std::vector<DType>& fed, int64_t batch, const InputOptions& options) {
  const ElementSpec& stored = samples.elements.element();
  const ElementSpec spec = fed_sample(stored, model, fed);
  const bool flips = pipeline.flips && options.trains;
  const auto has_classes = [&](const Component& component, size_t i) {
    return i >= model.inputs.size() && component.dtype == DType::I32;
  };
  Dataset all = samples.elements;
  if (options.trains && pipeline.shuffles) all = all.shuffle({.count = pipeline.shuffle_window, .seed = options.seed});
  // What a step takes as it is stored goes straight from the file into its batch.
  if (flips || !is_fed_as_stored(stored, spec)) {
    Converter converter;
    for (size_t i = 0; i < spec.size(); ++i)
      converter.parts.push_back(
          {.path = samples.paths[i],
           .conversion = conversion(stored[i], spec[i].dtype, model.preprocessing.byte_scale, samples.paths[i]),
           .flipped_width = flips ? width_of_images(model, i) : 0,
           .classes = has_classes(spec[i], i) ? model.classes : 0});
    if (flips)
      all = all.random_map(spec, std::move(converter), options.seed);
    else
      all = all.map(spec, [converter](const ElementView& from, const ElementSlot& to) { converter(from, to, 0); });
  }
  if (pipeline.most_corrupt > 0) all = all.skip_corrupt(pipeline.most_corrupt);
  const Shards& shards = options.shards;
  if (shards.is_cut) all = take_shards(all, shards, batch);
  // Data that repeats without end has full batches only.
  all = all.batch(shards.is_cut ? shards.own_size(batch) : batch, options.repeats);
  if (options.repeats) all = all.repeat();
  return all.prefetch(kBatchesAhead);
}

Inputs::Inputs(const Training& training, const input::Samples& samples, const InputOptions& options)
    : share_(training.session->data_line()),
      samples_(samples.elements.size()),
      steps_(options.repeats ? samples_ / training.spec.batch
                             : (samples_ + training.spec.batch - 1) / training.spec.batch),
      batch_(training.spec.batch),
      shards_(training.shards),
      reads_part_(training.shards.is_cut),
      last_batch_(options.repeats ? 0 : samples_ % training.spec.batch),
      batches_(make_batches(samples, training.model, training.spec.pipeline, types_of_feeds(training.passes),
                            training.spec.batch, with_shards(options, training.shards))) {
  whole_ = hash_of_whole(training, samples, options);
  path_ = samples.paths.front();
  if (options.trains && training.spec.batch > samples_)
    throw Error(fmt::format("{} has {} samples, fewer than a batch of {}; give a smaller batch", samples.paths.front(),
                            samples_, training.spec.batch),
                ErrorKind::Usage);
  // Where bad samples are passed over, the size of the last batch is not known.
  if (training.spec.pipeline.most_corrupt > 0 && !options.repeats) last_batch_.reset();
}

Inputs::Inputs(const Training& training, const Dataset& batches)
    : share_(reads_itself(training) ? training.session->data_line() : *training.line),
      samples_(0),
      steps_(batches.size()),
      batches_(batches) {
  if (training.spec.shares_batches) sharer_ = training.spec.communicator.get();
  const input::BatchCount count = input::count_batches(batches);
  samples_ = count.samples();
  last_batch_ = count.rest;
}

void Inputs::start_epoch(int64_t epoch) {
  if (!reads()) return;
  stop();
  position_ = 0;
  iteration_.emplace(input::start_iteration(batches_, share_));
  iteration_->start_epoch(static_cast<uint64_t>(epoch));
}

void Inputs::start_at(const DatasetState& state) {
  if (!reads()) return;
  stop();
  position_ = state.position;
  iteration_.emplace(input::start_iteration(batches_, share_));
  DatasetState own = state;
  // A rank may have no sample of the last batch.
  if (reads_part_ && batches_.size() >= 0) own.position = std::min(own.position, batches_.size());
  if (whole_ != 0 && state.dataset == whole_) own.dataset = iteration_->state().dataset;
  iteration_->seek(own);
}

void Inputs::expect_same_data(const DatasetState& state) const {
  if (!reads() || state.dataset == 0 || state.dataset == (whole_ != 0 ? whole_ : identity_of(batches_))) return;
  throw Error(
      fmt::format(
          "the training that is resumed had another dataset than {}: another number of samples, other contents or "
          "other stages; give the data and the options that it began with",
          path_.empty() ? to_string(batches_) : "'" + path_ + "'"),
      ErrorKind::Usage);
}

DatasetState Inputs::state() const { return iteration_ ? shared(iteration_->state()) : stopped_at_; }

DatasetState Inputs::shared(DatasetState own) const {
  if (reads_part_) own.position = position_;
  if (whole_ != 0) own.dataset = whole_;
  return own;
}

const ElementView* Inputs::next() {
  const Clock::time_point asked = Clock::now();
  const ElementView* const batch = iteration_->next();
  waited_ns_ += std::chrono::nanoseconds(Clock::now() - asked).count();
  return batch;
}

BatchPart Inputs::next_part() {
  if (sharer_ != nullptr) return share_part();
  if (!reads_part_) {
    const ElementView* const batch = next();
    return batch == nullptr ? BatchPart() : BatchPart{batch, input::samples_of(*batch)};
  }
  if (position_ >= steps_ && batches_.size() >= 0) return {};
  const int64_t samples = std::min(batch_, samples_ - position_ % steps_ * batch_);
  BatchPart part{nullptr, samples, false};
  if (shards_.own_size(samples) > 0) {
    part.view = next();
    if (part.view == nullptr) throw Error("the data ended within a batch", ErrorKind::BadData);
  }
  ++position_;
  return part;
}

// The others read the batch in the first one's memory. It stays valid until all have exchanged their results.
BatchPart Inputs::share_part() {
  const ElementView* batch = reads() ? next() : nullptr;
  sharer_->broadcast(std::as_writable_bytes(std::span(&batch, 1)));
  return batch == nullptr ? BatchPart() : BatchPart{batch, input::samples_of(*batch)};
}

void Inputs::stop() {
  if (!iteration_) return;
  for (const StageReport& stage : iteration_->stages()) {
    skipped_ += stage.skipped;
    if (stage.skipped > 0) last_skipped_ = stage.last_skipped;
  }
  stopped_at_ = shared(iteration_->state());
  iteration_.reset();
}

std::vector<StageReport> Inputs::stages() const { return iteration_ ? iteration_->stages() : batches_.stages(); }

std::vector<DType> fed_types(const input::Data& data, const ModelSpec& model) {
  std::vector<DType> types;
  for (const NamedType& input : model.inputs) {
    const auto is_bytes = [i = types.size()](const std::optional<input::Samples>& half) {
      return !half || half->elements.element()[i].dtype == DType::U8;
    };
    const bool stays =
        input.type.dtype == DType::F32 && !data.is_empty() && is_bytes(data.train) && is_bytes(data.test);
    types.push_back(stays ? DType::U8 : input.type.dtype);
  }
  return types;
}

namespace {

// The halves of the data as Inputs of this training read them: with the stage that takes a rank's part of each batch.
std::vector<Dataset> halves_of(const Training& training, bool repeats) {
  std::vector<Dataset> halves;
  const auto add = [&](const std::optional<input::Samples>& half, const InputOptions& options) {
    if (half)
      halves.push_back(make_batches(*half, training.model, training.spec.pipeline, types_of_feeds(training.passes),
                                    training.spec.batch, with_shards(options, training.shards)));
  };
  add(training.spec.data.train, {.trains = true, .repeats = repeats});
  add(training.spec.data.test, {});
  return halves;
}

// Stages of the dataset that takes more; the two are never read at the same time. Bytes scale with the batch size.
std::vector<StageReport> planned_stages(const input::BatchedData& data, int64_t batch) {
  std::vector<StageReport> most;
  for (const std::optional<Dataset>& dataset : {data.train, data.test}) {
    if (!dataset) continue;
    const int64_t own = input::count_batches(*dataset).batch;
    std::vector<StageReport> stages = dataset->stages();
    for (StageReport& stage : stages) stage.bytes = (stage.bytes * batch + own - 1) / own;
    if (most.empty() || bytes_of(stages) > bytes_of(most)) most = std::move(stages);
  }
  return most;
}

}  // namespace

std::vector<StageReport> planned_stages(const Training& training) {
  const Spec& spec = training.spec;
  if (!spec.batches.is_empty()) return planned_stages(spec.batches, spec.batch);
  if (spec.data.is_empty())
    return make_batches(widest_samples(training.model), training.model, spec.pipeline, types_of_feeds(training.passes),
                        training.input_batch(), {})
        .stages();
  // The two halves are never read at the same time.
  std::vector<StageReport> most;
  for (const Dataset& half : halves_of(training, spec.purpose == Purpose::Profile)) {
    std::vector<StageReport> stages = half.stages();
    if (most.empty() || bytes_of(stages) > bytes_of(most)) most = std::move(stages);
  }
  return most;
}

bool lie_aligned(const Training& training) {
  const auto is_aligned = [](const std::optional<Dataset>& half) { return !half || input::lie_aligned(*half); };
  return is_aligned(training.spec.batches.train) && is_aligned(training.spec.batches.test) &&
         std::ranges::all_of(halves_of(training, false), [](const Dataset& half) { return input::lie_aligned(half); });
}

Bytes useful_bytes(const Training& training, Bytes room) {
  Bytes useful = 0;
  for (const Dataset& half : halves_of(training, false)) useful = std::max(useful, half.useful_bytes(room));
  return useful;
}

Bytes bytes_of(const std::vector<StageReport>& stages) {
  Bytes bytes = 0;
  for (const StageReport& stage : stages) bytes += stage.bytes;
  return bytes;
}

}  // namespace plimsoll::train
