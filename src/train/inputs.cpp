#include "train/inputs.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "data/convert.h"

namespace plimsoll::train {
namespace {

// Names under which data sets of this kind are handed around, each also with .gz behind it.
struct UsualNames {
  const char *train_x, *train_y, *test_x, *test_y;
};
constexpr UsualNames kUsual[] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
    {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"},
};

std::string in_folder(const std::string& folder, const char* name) {
  for (const char* ending : {"", ".gz"}) {
    const std::filesystem::path path = std::filesystem::path(folder) / (std::string(name) + ending);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return {};
}

// Batches that are read ahead, beside the one in use.
constexpr int kBatchesAhead = 1;

// Bytes of images become reals in [0, 1]; label numbers become what the loss takes.
data::Conversion conversion(const Component& from, const TensorType& wanted, const std::string& path) {
  data::Conversion conversion{wanted.dtype, 1, 0};
  if (from.dtype == DType::U8 && wanted.dtype == DType::F32) conversion.scale = 1.0F / 255;
  if (const std::string reason = why_not(from.dtype, conversion); from.dtype != wanted.dtype && !reason.empty())
    throw Error(fmt::format("'{}': {}", path, reason), ErrorKind::BadData);
  return conversion;
}

void expect_samples(const Component& from, const TensorType& wanted, const std::string& path) {
  const int64_t elements = element_count(from.shape), want = element_count(wanted.shape).count();
  if (elements == want) return;
  throw Error(fmt::format("'{}' has samples of {} numbers {} but the model takes {} ({}); choose another model, image "
                          "size or number of channels",
                          path, elements, to_string(from.shape), want, to_string(wanted)),
              ErrorKind::BadData);
}

// Components are the index of a sample and its numbers: those of the model's types are written.
struct Converter {
  std::array<std::string, 2> paths;
  std::array<data::Conversion, 2> conversions;

  void operator()(const ElementView& from, const ElementSlot& to) const {
    for (size_t i = 0; i < 2; ++i) {
      const DType dtype = from.spec()[i + 1].dtype;
      const int64_t elements = from.bytes(i + 1) / size_of(dtype);
      if (dtype == conversions[i].to) {
        std::memcpy(to.data(i), from.data(i + 1), static_cast<size_t>(from.bytes(i + 1)));
      } else if (data::convert(dtype, from.data(i + 1), conversions[i], to.data(i), elements)) {
        throw Error(fmt::format("{}: sample {} holds a number that does not fit into {}; ask for i64", paths[i],
                                from.as<int64_t>(0)[0], name_of(conversions[i].to)),
                    ErrorKind::BadData);
      }
    }
  }
};

ElementSpec converted(const ElementSpec& from, const ModelSpec& model) {
  return {{"x", model.input().dtype, from[0].shape, {}}, {"y", model.labels().dtype, from[1].shape, {}}};
}

// What is the model's already goes straight from the file into its batch.
Dataset batches_of(const Dataset& samples, const ModelSpec& model, Converter converter, const InputOptions& options,
                   int64_t batch) {
  const ElementSpec spec = converted(samples.element(), model);
  const bool converts = to_string(spec) != to_string(samples.element());
  Dataset all = converts ? samples.enumerate().map(spec, std::move(converter)) : samples;
  if (options.shuffle) all = all.shuffle({.seed = options.seed});
  return all.batch(batch, options.drop_remainder).prefetch(kBatchesAhead);
}

Dataset open_batches(const Training& training, const Dataset& samples, const std::string& x, const std::string& y,
                     const InputOptions& options) {
  const ModelSpec& model = training.model;
  const ElementSpec& spec = samples.element();
  expect_samples(spec[0], model.input(), x);
  expect_samples(spec[1], model.labels(), y);
  if (options.drop_remainder && training.batch > samples.size())
    throw Error(fmt::format("{} has {} samples, fewer than a batch of {}, and remainders are dropped; give a smaller "
                            "batch",
                            x, samples.size(), training.batch),
                ErrorKind::Usage);
  return batches_of(samples, model,
                    {{x, y}, {conversion(spec[0], model.input(), x), conversion(spec[1], model.labels(), y)}}, options,
                    training.batch);
}

}  // namespace

Inputs::Inputs(const Training& training, const std::string& x, const std::string& y, const InputOptions& options)
    : share_(training.session->data_line()),
      samples_(Dataset::files({{"x", x}, {"y", y}}, options.scratch_folder)),
      batches_(open_batches(training, samples_, x, y, options)) {}

Iteration& Inputs::start_epoch(int64_t epoch) {
  iteration_.reset();
  iteration_.emplace(batches_.on(share_));
  iteration_->start_epoch(static_cast<uint64_t>(epoch));
  return *iteration_;
}

Bytes input_bytes(const ModelSpec& model, int64_t batch) {
  // No file has elements of more than 8 bytes.
  const auto widest = [](const char* name, const TensorType& type) {
    return Component{name, DType::I64, {element_count(type.shape).count()}, {}};
  };
  const Dataset samples = Dataset::generator({widest("x", model.input()), widest("y", model.labels())},
                                             [] { return [](const ElementSlot&) { return false; }; });
  return batches_of(samples, model, {}, {}, batch).bytes();
}

std::array<Feed, 2> feeds_of(const Training& training, const ElementView& batch) {
  const auto feed = [&](Tensor to, size_t component) {
    return Feed(to, batch.spec()[component].dtype, batch.data(component), batch.bytes(component));
  };
  return {feed(training.passes.input(), 0), feed(training.passes.labels(), 1)};
}

int64_t samples_of(const ElementView& batch) { return batch.dims(size_t{0})[0]; }

DataFiles find_data_files(const std::string& folder) {
  for (const UsualNames& names : kUsual) {
    DataFiles files{in_folder(folder, names.train_x), in_folder(folder, names.train_y), in_folder(folder, names.test_x),
                    in_folder(folder, names.test_y)};
    if (!files.train_x.empty() || !files.test_x.empty()) return files;
  }
  throw Error(fmt::format("'{}' has no data under a known name ({} or {}, also .gz); name the files one by one", folder,
                          kUsual[0].train_x, kUsual[1].train_x),
              ErrorKind::BadData);
}

}  // namespace plimsoll::train
