#include "train/inputs.h"

#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/error.h>

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

// Bytes of images become reals in [0, 1]; label numbers become what the loss takes.
std::optional<data::Conversion> conversion(const data::Source& source, const TensorType& wanted) {
  if (source.dtype() == wanted.dtype) return std::nullopt;
  data::Conversion conversion{wanted.dtype, 1, 0};
  if (source.dtype() == DType::U8 && wanted.dtype == DType::F32) conversion.scale = 1.0F / 255;
  if (const std::string reason = why_not(source.dtype(), conversion); !reason.empty())
    throw Error(fmt::format("'{}': {}", source.name(), reason), ErrorKind::BadData);
  return conversion;
}

void expect_samples(const data::Source& source, const TensorType& wanted) {
  int64_t elements = 1;
  for (const int64_t size : source.sample_shape()) elements *= size;
  const int64_t want = element_count(wanted.shape).count();
  if (elements == want) return;
  throw Error(fmt::format("'{}' has samples of {} numbers [{}] but the model takes {} ({}); choose another model, "
                          "image size or number of channels",
                          source.name(), elements, fmt::join(source.sample_shape(), ","), want, to_string(wanted)),
              ErrorKind::BadData);
}

}  // namespace

Inputs::Inputs(const Training& training, const std::string& x, const std::string& y, const InputOptions& options)
    : share_(training.session->data_line()) {
  const ModelSpec& model = training.model;
  const data::SourceOptions reading{options.scratch_folder};
  x_ = open_source(x, reading);
  y_ = open_source(y, reading);
  expect_samples(*x_, model.input());
  expect_samples(*y_, model.labels());
  data::BatchOptions batching;
  batching.batch = training.batch;
  batching.shuffle = options.shuffle;
  batching.seed = options.seed;
  batching.drop_remainder = options.drop_remainder;
  batching.conversions = {conversion(*x_, model.input()), conversion(*y_, model.labels())};
  batches_ = std::make_unique<data::Batches>(std::vector<const data::Source*>{x_.get(), y_.get()}, batching, share_);
}

data::Prefetch& Inputs::start_epoch(int64_t epoch) {
  prefetch_.reset();
  batches_->start_epoch(epoch);
  prefetch_ = std::make_unique<data::Prefetch>(*batches_, kPrefetchSlots, share_);
  return *prefetch_;
}

std::array<Feed, 2> feeds_of(const Training& training, const data::BatchSlot& slot) {
  const auto feed = [&](Tensor to, const TensorType& type, const void* rows) {
    return Feed(to, type.dtype, rows, slot.samples * element_count(type.shape).count() * size_of(type.dtype));
  };
  return {feed(training.passes.input(), training.model.input(), slot.rows[0]),
          feed(training.passes.labels(), training.model.labels(), slot.rows[1])};
}

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
