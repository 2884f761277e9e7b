#include "cli/inputs.h"

#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::cli {
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
                          "--image-size or --channels",
                          source.name(), elements, fmt::join(source.sample_shape(), ","), want, to_string(wanted)),
              ErrorKind::BadData);
}

}  // namespace

Inputs::Inputs(const Workload& load, const std::string& x, const std::string& y, const Settings& settings, bool shuffle,
               bool drop_remainder)
    : share_(load.session->data_line()) {
  const data::SourceOptions options{settings.scratch};
  x_ = open_source(x, options);
  y_ = open_source(y, options);
  expect_samples(*x_, load.spec.input);
  expect_samples(*y_, load.spec.labels);
  data::BatchOptions batching;
  batching.batch = load.batch;
  batching.shuffle = shuffle;
  batching.seed = settings.seed;
  batching.drop_remainder = drop_remainder;
  batching.conversions = {conversion(*x_, load.spec.input), conversion(*y_, load.spec.labels)};
  batches_ = std::make_unique<data::Batches>(std::vector<const data::Source*>{x_.get(), y_.get()}, batching, share_);
  if (batches_->batches_per_epoch() == 0)
    throw Error(fmt::format("'{}' has {} samples, fewer than one batch of {}; use a smaller --batch", x,
                            batches_->samples(), load.batch),
                ErrorKind::BadData);
}

data::Prefetch& Inputs::start_epoch(int64_t epoch) {
  prefetch_.reset();
  batches_->start_epoch(epoch);
  prefetch_ = std::make_unique<data::Prefetch>(*batches_, kPrefetchSlots, share_);
  return *prefetch_;
}

DataFiles find_data(const Settings& settings) {
  const auto expect_both = [](const std::string& x, const std::string& y, const char* x_flag, const char* y_flag) {
    if (x.empty() == y.empty()) return;
    throw Error(fmt::format("{} is given without {}: inputs and labels belong together", y.empty() ? x_flag : y_flag,
                            y.empty() ? y_flag : x_flag),
                ErrorKind::Usage);
  };
  expect_both(settings.train_x, settings.train_y, "--train-x", "--train-y");
  expect_both(settings.test_x, settings.test_y, "--test-x", "--test-y");
  if (!settings.train_x.empty() || !settings.test_x.empty())
    return {settings.train_x, settings.train_y, settings.test_x, settings.test_y};
  if (settings.data.empty())
    throw Error("no data: give --data FOLDER, or files with --train-x and --train-y (and --test-x, --test-y)",
                ErrorKind::Usage);
  for (const UsualNames& names : kUsual) {
    DataFiles files{in_folder(settings.data, names.train_x), in_folder(settings.data, names.train_y),
                    in_folder(settings.data, names.test_x), in_folder(settings.data, names.test_y)};
    if (!files.train_x.empty() || !files.test_x.empty()) return files;
  }
  throw Error(fmt::format("'{}' has no data under a known name ({} or {}, also .gz); give the files with --train-x, "
                          "--train-y, --test-x, --test-y",
                          settings.data, kUsual[0].train_x, kUsual[1].train_x),
              ErrorKind::BadData);
}

}  // namespace plimsoll::cli
