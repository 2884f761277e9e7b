#include "train/data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "data/detect.h"
#include "data/formats/csv.h"
#include "data/formats/csv_guess.h"
#include "data/formats/npz.h"
#include "data/formats/tf_table.h"
#include "data/image/image_files.h"
#include "dataset/labelled_files.h"
#include "dataset/table_origin.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

// Names under which array files of this kind are handed around, each also with .gz behind it.
constexpr const char* kUsualFiles[][4] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
    {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"},
};
constexpr const char* kUsualArrays[] = {"x_train", "y_train", "x_test", "y_test"};
constexpr std::string_view kTrainNames[] = {"train", "training"};
constexpr std::string_view kTestNames[] = {"test", "val", "valid", "validation"};
constexpr std::string_view kLabelNames[] = {"label", "labels", "y", "class", "target", "targets", "image/class/label"};
constexpr std::string_view kInputNames[] = {"x", "image", "images", "input", "inputs", "features", "image/encoded"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void fail(const std::string& what) { throw Error(what, ErrorKind::BadData); }

std::string in_folder(const std::string& folder, const char* name) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = fs::path(folder) / (std::string(name) + ending);
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.string();
  }
  return {};
}

// Pairs of arrays under a usual name, in a folder or in an archive; empty where there are none.
DataFiles find_pairs(const std::string& path, data::DataKind kind) {
  if (kind == data::DataKind::Npz) {
    const std::vector<std::string> names = data::list_npz(path);
    const auto array = [&](const char* name) {
      return std::ranges::find(names, name) == names.end() ? std::string() : fmt::format("{}:{}", path, name);
    };
    return {array(kUsualArrays[0]), array(kUsualArrays[1]), array(kUsualArrays[2]), array(kUsualArrays[3])};
  }
  for (const auto& names : kUsualFiles) {
    DataFiles files{in_folder(path, names[0]), in_folder(path, names[1]), in_folder(path, names[2]),
                    in_folder(path, names[3])};
    if (!files.train_x.empty() || !files.test_x.empty()) return files;
  }
  return {};
}

// The entry of a folder whose name without its ending is one of these; empty: none.
std::string find_entry(const std::string& folder, std::span<const std::string_view> names) {
  std::error_code error;
  for (fs::directory_iterator walk(folder, error); !error && walk != fs::directory_iterator(); walk.increment(error)) {
    const std::string name = walk->path().filename().string();
    if (is_one_of(name.substr(0, name.find('.')), names)) return walk->path().string();
  }
  return {};
}

// Which of several named parts is the input and which the label.
struct Roles {
  std::string x, y;
};

Roles choose_roles(const std::vector<std::string>& names, const std::string& asked, const std::string& path) {
  Roles roles{"", asked};
  const auto all = fmt::format("{}", fmt::join(names, ", "));
  if (asked.empty()) {
    const auto label =
        std::ranges::find_if(names, [](const std::string& name) { return is_one_of(name, kLabelNames); });
    if (label == names.end()) fail(fmt::format("{}: none of {} is named like a label; say which is", path, all));
    roles.y = *label;
  } else if (std::ranges::find(names, asked) == names.end()) {
    fail(fmt::format("{}: has no '{}' to take labels from; it has {}", path, asked, all));
  }
  std::vector<std::string> others;
  std::ranges::copy_if(names, std::back_inserter(others), [&](const std::string& name) { return name != roles.y; });
  const auto input = std::ranges::find_if(others, [](const std::string& name) { return is_one_of(name, kInputNames); });
  if (input == others.end() && others.size() != 1)
    fail(fmt::format("{}: none of {} is named like the one input of a model; name it x", path, all));
  roles.x = input == others.end() ? others[0] : *input;
  return roles;
}

struct Half {
  Samples samples;
  data::DataKind kind = data::DataKind::None;
  std::vector<std::string> classes = {};
};

class HalfOpener {
 public:
  HalfOpener(const DataSpec& spec, const ModelSpec& model) : spec_(spec), model_(model) {}

  Half open(const std::string& path) const {
    const data::DataKind kind = data::find_kind(path);
    switch (kind) {
      case data::DataKind::Csv:
        return table(data::open_csv(path, csv_options(path)), kind);
      case data::DataKind::TfRecord:
        return tf_records(path);
      case data::DataKind::Images:
        return table(data::open_image_folder(path, image_options(path)), kind);
      case data::DataKind::ImageList:
        return table(data::open_image_list(path, image_options(path)), kind);
      case data::DataKind::Npz: {
        const Roles roles = choose_roles(data::list_npz(path), spec_.label, path);
        return pair(fmt::format("{}:{}", path, roles.x), fmt::format("{}:{}", path, roles.y), kind);
      }
      case data::DataKind::Arrays:
        return array_files(path);
      case data::DataKind::Array:
        if (!spec_.needs_labels) return unlabelled(path);
        fail(fmt::format("{}: an array without labels; give a folder or an archive with both, or both files", path));
      case data::DataKind::None:
        break;
    }
    data::open_table(path);  // says what can be read
    fail(fmt::format("{}: is no data", path));
  }

  Half pair(const std::string& x, const std::string& y, data::DataKind kind) const {
    expect_no_image_maps(x);
    return checked({{dataset::labelled_files(x, y, spec_.scratch_folder), x, y}, kind});
  }

  Half unlabelled(const std::string& path) const {
    expect_no_image_maps(path);
    const Dataset inputs = Dataset::files({{"x", path}}, spec_.scratch_folder);
    const TensorType& labels = model_.labels();
    const ElementSpec both{inputs.element()[0], {"y", labels.dtype, {element_count(labels.shape).count()}, {}}};
    const auto add_labels = [](const ElementView& from, const ElementSlot& to) {
      std::memcpy(to.data(0), from.data(0), static_cast<size_t>(from.bytes(0)));
      std::memset(to.data(1), 0, static_cast<size_t>(to.spec()[1].bytes()));
    };
    return checked({{inputs.map(both, add_labels), path, path}, data::DataKind::Array});
  }

 private:
  Half table(std::shared_ptr<const data::Table> table, data::DataKind kind) const {
    if (table->fields().size() < 2) fail(fmt::format("{}: has no labels", table->name()));
    if (kind == data::DataKind::Csv) expect_no_image_maps(table->name());
    const std::vector<std::string> classes = table->classes();
    if (const auto count = static_cast<int64_t>(classes.size()); model_.classes > 0 && count > model_.classes)
      fail(fmt::format("{}: has {} classes but the model has {}; give the model as many classes", table->name(), count,
                       model_.classes));
    const std::string path = table->name();
    return checked({{dataset::from_table(std::move(table), fmt::format("read({})", path), spec_.threads), path, path},
                    kind,
                    classes});
  }

  CsvOptions csv_options(const std::string& path) const {
    CsvOptions options = data::guess_csv(path, spec_.scratch_folder);
    options.label = spec_.label;
    if (options.label.empty()) {
      const auto named = std::ranges::find_if(
          options.columns, [](const CsvColumn& column) { return is_one_of(column.column, kLabelNames); });
      options.label = named == options.columns.end() ? options.columns.back().column : named->column;
    }
    const auto label =
        std::ranges::find_if(options.columns, [&](const CsvColumn& one) { return one.column == options.label; });
    // Where the model takes numbers of classes, a row that has another number is the mistake, not the column.
    if (label != options.columns.end() && label->type == CsvType::Float && !is_float(model_.labels().dtype))
      options.label_type = CsvType::Integer;
    options.columns.clear();
    return options;
  }

  // Features of the first record that are input and label, in this order.
  Half tf_records(const std::string& path) const {
    const std::vector<std::string> paths = data::list_files(path, data::DataKind::TfRecord);
    const std::vector<TfFeature> all = data::guess_features(paths[0], {}, spec_.scratch_folder);
    std::vector<std::string> names;
    for (const TfFeature& feature : all) names.push_back(feature.name);
    const Roles roles = choose_roles(names, spec_.label, path);
    const auto find = [&](const std::string& name) {
      return *std::ranges::find_if(all, [&](const TfFeature& feature) { return feature.name == name; });
    };
    TfFeature x = find(roles.x), y = find(roles.y);
    if (x.image) x.image = image_options(path);
    if (!x.image) expect_no_image_maps(path);
    y.is_label = true;
    return table(data::open_tf_records(paths, {x, y}, data::SparseIndex::kBytes, spec_.scratch_folder),
                 data::DataKind::TfRecord);
  }

  Half array_files(const std::string& path) const {
    const std::vector<std::string> files = data::list_files(path, data::DataKind::Array);
    std::vector<std::string> names;
    for (const std::string& file : files) {
      const std::string name = fs::path(file).filename().string();
      names.push_back(name.substr(0, name.find('.')));
    }
    const Roles roles = choose_roles(names, spec_.label, path);
    const auto file_of = [&](const std::string& name) {
      return files[static_cast<size_t>(std::ranges::find(names, name) - names.begin())];
    };
    return pair(file_of(roles.x), file_of(roles.y), data::DataKind::Arrays);
  }

  // Images as the model takes them, in bytes.
  ImageOptions image_options(const std::string& path) const {
    const Shape& shape = model_.input().shape;
    if (shape.rank() != 4 || model_.input().dtype != DType::F32)
      fail(fmt::format("{}: holds images, but {} takes {}", path, model_.name(), to_string(model_.input())));
    const int64_t channels = shape[1].count();
    if (channels != 1 && channels != 3)
      fail(fmt::format("{}: images have 3 channels, or 1 in gray, but {} takes {}", path, model_.name(), channels));
    ImageOptions options;
    options.height = shape[2].count();
    options.width = shape[3].count();
    options.channels = static_cast<int>(channels);
    options.channels_first = true;
    options.resize = spec_.maps.resize;
    options.central_crop = spec_.maps.central_crop;
    return options;
  }

  void expect_no_image_maps(const std::string& path) const {
    if (spec_.maps.resize == ResizeMethod::Bilinear && spec_.maps.central_crop == 1) return;
    throw Error(fmt::format("{}: holds numbers; only JPEG and PNG images are resized and cropped", path),
                ErrorKind::Usage);
  }

  Half checked(Half half) const {
    const ElementSpec& spec = half.samples.elements.element();
    expect_samples(spec[0], model_.input(), half.samples.x_path);
    expect_samples(spec[1], model_.labels(), half.samples.y_path);
    return half;
  }

  static void expect_samples(const Component& from, const TensorType& wanted, const std::string& path) {
    const int64_t elements = element_count(from.shape), want = element_count(wanted.shape).count();
    if (elements == want) return;
    fail(
        fmt::format("'{}' has samples of {} numbers {} but the model takes {} ({}); choose another model, image size "
                    "or number of channels",
                    path, elements, to_string(from.shape), want, to_string(wanted)));
  }

  const DataSpec& spec_;
  const ModelSpec& model_;
};

// Where one half is: a path of its own, or files of inputs and labels; neither: it is not there.
struct HalfPlace {
  std::string path, x, y;
  bool is_given() const { return !path.empty() || !x.empty(); }
};
struct Places {
  HalfPlace train, test;
};

Places places_of(const DataFiles& files) {
  for (const auto& [x, y] : {std::pair(files.train_x, files.train_y), std::pair(files.test_x, files.test_y)})
    if (x.empty() != y.empty())
      fail(fmt::format("'{}' is there without its {}", x + y, x.empty() ? "inputs" : "labels"));
  return {{"", files.train_x, files.train_y}, {"", files.test_x, files.test_y}};
}

Places find_places(const std::string& path) {
  const data::DataKind kind = data::find_kind(path);
  if (const Places pairs = places_of(find_pairs(path, kind)); pairs.train.is_given() || pairs.test.is_given())
    return pairs;
  if (const std::string train = find_entry(path, kTrainNames); !train.empty())
    return {{train, "", ""}, {find_entry(path, kTestNames), "", ""}};
  return {{path, "", ""}, {}};
}

Places find_places(const DataSpec& spec) {
  Places places;
  const DataFiles& files = spec.files;
  const bool has_files = !(files.train_x + files.train_y + files.test_x + files.test_y).empty();
  if (has_files)
    places = places_of(files);
  else if (!spec.path.empty())
    places = find_places(spec.path);
  if (spec.validation.empty()) return places;
  const Places other = find_places(spec.validation);
  places.test = other.test.is_given() ? other.test : other.train;
  return places;
}

// The first half that is opened says what the data is.
std::optional<Samples> open_half(const HalfPlace& place, const DataSpec& spec, const ModelSpec& model, Data& data) {
  if (!place.is_given()) return std::nullopt;
  const HalfOpener opener(spec, model);
  Half half = place.path.empty() ? opener.pair(place.x, place.y, data::DataKind::Arrays) : opener.open(place.path);
  if (data.kind.empty()) {
    data.path = spec.path.empty() ? place.x : spec.path;
    const data::DataKind whole = spec.path.empty() ? data::DataKind::Array : data::find_kind(spec.path);
    data.kind = data::name_of(whole == data::DataKind::None ? half.kind : whole);
    data.classes = std::move(half.classes);
  }
  return std::move(half.samples);
}

}  // namespace

Data open_data(const DataSpec& spec, const ModelSpec& model) {
  const Places places = find_places(spec);
  Data data;
  data.train = open_half(places.train, spec, model, data);
  data.test = open_half(places.test, spec, model, data);
  return data;
}

Data open_test_data(const DataSpec& spec, const ModelSpec& model) {
  const Places places = find_places(spec);
  Data data;
  data.test = open_half(places.test.is_given() ? places.test : places.train, spec, model, data);
  return data;
}

}  // namespace plimsoll::train
