#include "input/opening/follow_data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "input/files/convert.h"
#include "input/files/csv.h"
#include "input/files/csv_guess.h"
#include "input/files/npz.h"
#include "input/files/source.h"
#include "input/files/tf_table.h"
#include "input/image/image_files.h"
#include "input/opening/csv_roles.h"
#include "input/opening/data_places.h"
#include "input/opening/detect.h"
#include "input/opening/roles.h"
#include "model/training.h"

namespace plimsoll::input {
namespace {

constexpr int64_t kLargestClass = 1'000'000;  // larger numbers are no classes

struct DataSizes {
  std::vector<int64_t> sample = {};  // of the input, as it is stored; empty: images, which are resized
  int64_t classes = 0;               // 0: not known
};

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// One more than the largest number; 0 where there is one that is no class.
class ClassCounter {
 public:
  void add(int64_t label) {
    is_good_ = is_good_ && label >= 0 && label < kLargestClass;
    classes_ = std::max(classes_, label + 1);
  }
  int64_t classes() const { return is_good_ ? classes_ : 0; }

 private:
  int64_t classes_ = 0;
  bool is_good_ = true;
};

int64_t count_labels(const Source& labels) {
  if (is_float(labels.dtype()) || product(labels.sample_shape()) != 1) return 0;
  ClassCounter counter;
  std::array<int64_t, 1024> stored, numbers;
  for (int64_t first = 0; first < labels.samples();) {
    const int64_t now = std::min<int64_t>(labels.samples() - first, std::ssize(stored));
    labels.read(first, now, stored.data());
    convert(labels.dtype(), stored.data(), {.to = DType::I64}, numbers.data(), now);
    for (int64_t i = 0; i < now; ++i) counter.add(numbers[static_cast<size_t>(i)]);
    first += now;
  }
  return counter.classes();
}

DataSizes sizes_of_arrays(const std::string& x, const std::string& y, const DataSpec& spec) {
  const SourceOptions options{spec.scratch_folder};
  DataSizes sizes{.sample = read_sample_shape(x, options)};
  if (!y.empty()) sizes.classes = count_labels(*open_source(y, options));
  return sizes;
}

// The names of classes, or their numbers in a pass over the column of the labels.
int64_t count_labels(CsvOptions options, const std::string& path) {
  const auto label = std::ranges::find(options.columns, options.label, &CsvColumn::column);
  const bool has_type = label != options.columns.end();
  if (has_type && label->type == CsvType::Float) return 0;
  options.columns = {{options.label, has_type ? label->type : CsvType::Integer, "label"}};
  options.label_type.reset();
  const auto table = open_csv(path, options);
  if (!table->classes().empty()) return static_cast<int64_t>(table->classes().size());
  ClassCounter counter;
  const auto reader = table->open_reader();
  int64_t number = 0;
  std::byte* const into[] = {reinterpret_cast<std::byte*>(&number)};
  for (int64_t row = 0; row < table->elements(); ++row) {
    try {
      reader->read(row, into);
    } catch (const Error&) {
      continue;  // training says what is wrong with it, or passes it over
    }
    counter.add(number);
  }
  return counter.classes();
}

DataSizes sizes_of_csv(const std::string& path, const DataSpec& spec, const ModelSpec& model) {
  const CsvOptions guessed = guess_csv(path, spec.scratch_folder);
  const CsvRoles roles = choose_columns(guessed, path, spec, model, {});
  const std::string& label = roles.options.label;
  DataSizes sizes{.sample = {static_cast<int64_t>(guessed.columns.size()) - (label.empty() ? 0 : 1)}};
  if (label.empty()) return sizes;
  CsvOptions options = guessed;
  options.label = label;
  sizes.classes = count_labels(std::move(options), path);
  return sizes;
}

DataSizes sizes_of_records(const std::string& path, const DataSpec& spec, const ModelSpec& model) {
  const std::string first = list_files(path, DataKind::TfRecord).front();
  const std::vector<TfFeature> features = guess_features(first, {}, spec.scratch_folder);
  std::vector<std::string> names;
  for (const TfFeature& feature : features) names.push_back(feature.name);
  const std::string input = choose_roles(names, model, spec.label, path).front();
  const auto& feature = *std::ranges::find(features, input, &TfFeature::name);
  return {.sample = feature.image ? std::vector<int64_t>() : feature.shape};
}

DataSizes look_at(const HalfPlace& place, const DataSpec& spec, const ModelSpec& model) {
  if (place.path.empty()) return sizes_of_arrays(place.x, place.y, spec);
  const std::string& path = place.path;
  switch (const DataKind kind = find_kind(path)) {
    case DataKind::Csv:
      return sizes_of_csv(path, spec, model);
    case DataKind::TfRecord:
      return sizes_of_records(path, spec, model);
    case DataKind::Images:
      return {.classes = static_cast<int64_t>(open_image_folder(path)->classes().size())};
    case DataKind::ImageList:
      return {.classes = open_image_list(path)->label_count()};
    case DataKind::Npz:
    case DataKind::Arrays: {
      const ArrayList arrays = list_arrays(path, kind);
      const Roles roles = choose_roles(arrays.names, model, spec.label, path);
      return sizes_of_arrays(arrays.path_of(roles[0]), arrays.path_of(roles[1]), spec);
    }
    case DataKind::Array:
      return sizes_of_arrays(path, "", spec);
    case DataKind::None:
      break;
  }
  return {};
}

// A window may be larger than a small image.
bool can_be_built(const std::string& model, const ModelOptions& options) {
  try {
    Graph graph;
    model::build_inference(graph, find_model(model, options));
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct ImageForm {
  int64_t channels, size;
};

// How an image of the model may be stored in samples of that shape.
std::vector<ImageForm> forms_of(const std::vector<int64_t>& sample, const std::string& model) {
  std::vector<ImageForm> forms;
  const size_t rank = sample.size();
  if (rank == 3 && sample[1] == sample[2]) forms.push_back({sample[0], sample[1]});
  if (rank == 3 && sample[0] == sample[1]) forms.push_back({sample[2], sample[0]});
  if (rank == 2 && sample[0] == sample[1]) forms.push_back({1, sample[0]});
  if (model == "mlp") forms.push_back({product(sample), 1});  // it flattens its input
  return forms;
}

// Sets what nobody gave, where one form of the sample fits what was given.
void follow_sample(const std::string& model, const std::vector<int64_t>& sample, ModelOptions& options) {
  for (const auto& [channels, size] : forms_of(sample, model)) {
    if (options.channels.value_or(channels) != channels || options.image_size.value_or(size) != size) continue;
    ModelOptions more = options;
    more.channels = channels;
    more.image_size = size;
    if (!can_be_built(model, more)) continue;
    options = more;
    return;
  }
}

bool is_classifier(const ModelSpec& model) {
  return model.inputs.size() == 1 && model.targets.size() == 1 && is_image(model.input()) && model.classes > 0 &&
         model.labels().dtype == DType::I32 && model.labels().shape.rank() == 1;
}

std::string describe_followed(const ModelOptions& given, const ModelOptions& after) {
  std::vector<std::string> parts;
  if (given.classes != after.classes) parts.push_back(fmt::format("{} classes", *after.classes));
  if (given.channels != after.channels) parts.push_back(fmt::format("{} channels", *after.channels));
  if (given.image_size != after.image_size) parts.push_back(fmt::format("image size {}", *after.image_size));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

bool has_options(const std::string& model, const ModelOptions& options) {
  try {
    find_model(model, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

FollowedOptions follow_data(const std::string& model, const ModelOptions& given, const DataSpec& spec) {
  const ModelSpec own = find_model(model, given);
  const Places places = find_places(spec);
  const HalfPlace& main = places.train.is_given() ? places.train : places.test;
  if (!is_classifier(own) || !main.is_given()) return {given, ""};
  const DataSizes sizes = look_at(main, spec, own);
  FollowedOptions followed{given, ""};
  if (!sizes.sample.empty() && product(sizes.sample) != element_count(own.input().shape).count())
    follow_sample(model, sizes.sample, followed.options);
  ModelOptions more = followed.options;
  more.classes = std::max<int64_t>(2, sizes.classes);
  if (sizes.classes > 0 && !given.classes && sizes.classes != own.classes && has_options(model, more))
    followed.options = more;
  followed.text = describe_followed(given, followed.options);
  return followed;
}

}  // namespace plimsoll::input
