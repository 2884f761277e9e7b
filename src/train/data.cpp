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
#include "train/roles.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

// Usual names of array files: training inputs and labels, test inputs and labels; each also with .gz behind it.
constexpr const char* kUsualFiles[][4] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
    {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"},
};
constexpr const char* kUsualArrays[] = {"x_train", "y_train", "x_test", "y_test"};
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
        return table(data::open_image_folder(path, only_image(path)), kind);
      case data::DataKind::ImageList:
        return table(data::open_image_list(path, only_image(path)), kind);
      case data::DataKind::Npz: {
        Roles arrays = choose_roles(data::list_npz(path), model_, spec_.label, path);
        for (std::string& array : arrays) array = fmt::format("{}:{}", path, array);
        return array_files(arrays, kind);
      }
      case data::DataKind::Arrays:
        return array_folder(path);
      case data::DataKind::Array:
        if (!spec_.needs_labels) return unlabelled(path);
        fail(fmt::format("{}: an array without labels; give a folder or an archive with both, or both files", path));
      case data::DataKind::None:
        break;
    }
    data::open_table(path);  // says what can be read
    fail(fmt::format("{}: is no data", path));
  }

  // A file for each input and target.
  Half array_files(const std::vector<std::string>& paths, data::DataKind kind) const {
    const std::vector<std::string> names = component_names(model_);
    if (paths.size() != names.size())
      fail(
          fmt::format("{}: {} takes {}, more than one array of inputs; give an archive or a folder with arrays of "
                      "these names",
                      paths.front(), model_.name(), fmt::join(names, ", ")));
    expect_no_image_maps(paths.front());
    std::vector<std::pair<std::string, std::string>> files;
    for (size_t i = 0; i < names.size(); ++i) files.emplace_back(names[i], paths[i]);
    const dataset::LabelRule labels{names[model_.inputs.size()], model_.classes};
    return checked({{dataset::labelled_files(files, labels, spec_.scratch_folder), paths}, kind});
  }

  Half unlabelled(const std::string& path) const {
    expect_one_input(path, "an array");
    expect_no_image_maps(path);
    const Dataset inputs = Dataset::files({{"x", path}}, spec_.scratch_folder);
    const TensorType& labels = model_.labels();
    const ElementSpec both{inputs.element()[0], {"y", labels.dtype, {element_count(labels.shape).count()}, {}}};
    const auto add_labels = [](const ElementView& from, const ElementSlot& to) {
      std::memcpy(to.data(0), from.data(0), static_cast<size_t>(from.bytes(0)));
      std::memset(to.data(1), 0, static_cast<size_t>(to.spec()[1].bytes()));
    };
    return checked({{inputs.map(both, add_labels), {path, path}}, data::DataKind::Array});
  }

 private:
  Half table(const std::shared_ptr<const data::Table>& table, data::DataKind kind) const {
    const size_t wanted = component_names(model_).size();
    if (table->fields().size() < wanted) fail(fmt::format("{}: has no labels", table->name()));
    if (kind == data::DataKind::Csv) expect_no_image_maps(table->name());
    const std::vector<std::string> classes = table->classes();
    if (const auto count = static_cast<int64_t>(classes.size()); model_.classes > 0 && count > model_.classes)
      fail(fmt::format("{}: has {} classes but the model has {}; give the model as many classes", table->name(), count,
                       model_.classes));
    const std::string path = table->name();
    return checked({{dataset::from_table(table, fmt::format("read({})", path), spec_.threads),
                     std::vector<std::string>(wanted, path)},
                    kind,
                    classes});
  }

  CsvOptions csv_options(const std::string& path) const {
    CsvOptions options = data::guess_csv(path, spec_.scratch_folder);
    options.label = spec_.label;
    if (options.label.empty()) {
      const auto named =
          std::ranges::find_if(options.columns, [](const CsvColumn& column) { return is_label_name(column.column); });
      options.label = named == options.columns.end() ? options.columns.back().column : named->column;
    }
    const auto label =
        std::ranges::find_if(options.columns, [&](const CsvColumn& one) { return one.column == options.label; });
    // Where the model takes numbers of classes, a row that has another number is the mistake, not the column.
    if (label != options.columns.end() && label->type == CsvType::Float && !is_float(model_.labels().dtype))
      options.label_type = CsvType::Integer;
    if (model_.inputs.size() == 1)
      options.columns.clear();
    else
      options.columns = columns_of_inputs(options.columns, model_, path);
    return options;
  }

  // Features of the first record that are inputs and targets, in this order.
  Half tf_records(const std::string& path) const {
    const std::vector<std::string> paths = data::list_files(path, data::DataKind::TfRecord);
    const std::vector<TfFeature> all = data::guess_features(paths[0], {}, spec_.scratch_folder);
    std::vector<std::string> names;
    for (const TfFeature& feature : all) names.push_back(feature.name);
    std::vector<TfFeature> chosen;
    bool has_image = false;
    for (const std::string& name : choose_roles(names, model_, spec_.label, path)) {
      TfFeature& feature =
          chosen.emplace_back(*std::ranges::find_if(all, [&](const TfFeature& one) { return one.name == name; }));
      feature.is_label = chosen.size() > model_.inputs.size();
      if (!feature.image || feature.is_label) continue;
      feature.image = image_options(path, model_.inputs[chosen.size() - 1].type);
      has_image = true;
    }
    if (!has_image) expect_no_image_maps(path);
    return table(data::open_tf_records(paths, chosen, data::SparseIndex::kBytes, spec_.scratch_folder),
                 data::DataKind::TfRecord);
  }

  Half array_folder(const std::string& path) const {
    const std::vector<std::string> files = data::list_files(path, data::DataKind::Array);
    std::vector<std::string> names;
    for (const std::string& file : files) {
      const std::string name = fs::path(file).filename().string();
      names.push_back(name.substr(0, name.find('.')));
    }
    Roles chosen = choose_roles(names, model_, spec_.label, path);
    for (std::string& one : chosen) one = files[static_cast<size_t>(std::ranges::find(names, one) - names.begin())];
    return array_files(chosen, data::DataKind::Arrays);
  }

  // For files whose samples are one image each.
  ImageOptions only_image(const std::string& path) const {
    expect_one_input(path, "images");
    return image_options(path, model_.input());
  }

  void expect_one_input(const std::string& path, const char* holds) const {
    if (model_.inputs.size() == 1) return;
    fail(fmt::format("{}: holds {}, but {} takes {}; give an archive, records or a table with these names", path, holds,
                     model_.name(), fmt::join(component_names(model_), ", ")));
  }

  // Images as the model takes them, in bytes.
  ImageOptions image_options(const std::string& path, const TensorType& input) const {
    const Shape& shape = input.shape;
    if (!is_image(input)) fail(fmt::format("{}: holds images, but {} takes {}", path, model_.name(), to_string(input)));
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
    const std::vector<TensorType> types = component_types(model_);
    for (size_t i = 0; i < types.size(); ++i) expect_samples(spec[i], types[i], half.samples.paths[i]);
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
  if (Places pairs = places_of(find_pairs(path, kind)); pairs.train.is_given() || pairs.test.is_given()) return pairs;
  if (const data::Halves halves = data::find_halves(path); !halves.train.empty())
    return {{halves.train, "", ""}, {halves.test, "", ""}};
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

// The first half that is opened sets the path, kind and classes of the data.
std::optional<Samples> open_half(const HalfPlace& place, const DataSpec& spec, const ModelSpec& model, Data& data) {
  if (!place.is_given()) return std::nullopt;
  const HalfOpener opener(spec, model);
  Half half =
      place.path.empty() ? opener.array_files({place.x, place.y}, data::DataKind::Arrays) : opener.open(place.path);
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
