#include "input/opening/open_half.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "input/files/class_names.h"
#include "input/files/csv.h"
#include "input/files/csv_guess.h"
#include "input/files/label_source.h"
#include "input/files/tf_table.h"
#include "input/image/image_files.h"
#include "input/opening/csv_roles.h"
#include "input/opening/roles.h"
#include "input/stages/labelled_files.h"
#include "input/stages/table_origin.h"

namespace plimsoll::input {
namespace {

[[noreturn]] void refuse_half(const std::string& what) { throw Error(what, ErrorKind::BadData); }

class HalfOpener {
 public:
  HalfOpener(const DataSpec& spec, const ModelSpec& model, const KnownNames& known)
      : spec_(spec), model_(model), known_(known) {}

  OpenedHalf open(const std::string& path) const {
    const DataKind kind = find_kind(path);
    switch (kind) {
      case DataKind::Csv:
        return csv(path);
      case DataKind::TfRecord:
        return tf_records(path);
      case DataKind::Images:
        return table(open_image_folder(path, only_image(path)), kind, {.from = path});
      case DataKind::ImageList:
        return table(open_image_list(path, only_image(path)), kind, {.from = path});
      case DataKind::Npz:
      case DataKind::Arrays: {
        const ArrayList arrays = list_arrays(path, kind);
        Roles roles = choose_roles(arrays.names, model_, spec_.label, path);
        for (std::string& one : roles) one = arrays.path_of(one);
        return array_files(roles, kind);
      }
      case DataKind::Array:
        if (!spec_.needs_labels) return unlabelled(path);
        refuse_half(
            fmt::format("{}: an array without labels; give a folder or an archive with both, or both files", path));
      case DataKind::None:
        break;
    }
    open_table(path);  // says what can be read
    refuse_half(fmt::format("{}: is no data", path));
  }

  // A file for each input and target.
  OpenedHalf array_files(const std::vector<std::string>& paths, DataKind kind) const {
    const std::vector<std::string> names = component_names(model_);
    if (paths.size() != names.size())
      refuse_half(
          fmt::format("{}: {} takes {}, more than one array of inputs; give an archive or a folder with arrays of "
                      "these names",
                      paths.front(), model_.name(), fmt::join(names, ", ")));
    expect_no_image_maps(paths.front());
    std::vector<std::pair<std::string, std::string>> files;
    for (size_t i = 0; i < names.size(); ++i) files.emplace_back(names[i], paths[i]);
    const LabelRule labels{names[model_.inputs.size()], model_.classes};
    return checked({{labelled_files(files, labels, spec_.scratch_folder), paths}, kind, {.from = paths.front()}});
  }

  OpenedHalf unlabelled(const std::string& path) const {
    expect_one_input(path, "an array");
    expect_no_image_maps(path);
    const Dataset inputs = Dataset::files({{"x", path}}, spec_.scratch_folder);
    return checked({{with_any_labels(inputs), {path, path}}, DataKind::Array, {.from = path}});
  }

 private:
  LabelBound label_bound() const {
    return {spec_.needs_labels && !is_float(model_.labels().dtype) ? model_.classes : 0};
  }

  // The names that labels must have; null: they may have any.
  const std::vector<std::string>* known_classes() const {
    return spec_.needs_labels && known_.classes && !known_.classes->empty() ? &*known_.classes : nullptr;
  }

  OpenedHalf table(const std::shared_ptr<const Table>& table, DataKind kind, KnownNames names) const {
    const std::string path = table->name();
    const size_t wanted = component_names(model_).size();
    const bool has_labels = table->fields().size() >= wanted;
    if (!has_labels && spec_.needs_labels) refuse_half(fmt::format("{}: has no labels", path));
    const std::vector<std::string>& classes = table->classes();
    if (spec_.needs_labels) expect_classes(classes, path);
    names.classes = classes;
    Dataset elements = from_table(table, fmt::format("read({})", path), spec_.threads);
    if (!has_labels || (!spec_.needs_labels && !classes.empty())) elements = with_any_labels(elements);
    return checked({{elements, std::vector<std::string>(wanted, path)}, kind, std::move(names)});
  }

  void expect_classes(const std::vector<std::string>& classes, const std::string& path) const {
    if (!classes.empty() && known_.classes && known_.classes->empty())
      refuse_half(fmt::format("{}: its labels are named {}, but those of {} are numbers; give both the same", path,
                              shown_names(classes), known_.from));
    if (const auto count = static_cast<int64_t>(classes.size()); model_.classes > 0 && count > model_.classes)
      refuse_half(fmt::format("{}: has {} classes but the model has {}; give the model as many classes", path, count,
                              model_.classes));
  }

  // The inputs with labels of 0, which nobody reads.
  Dataset with_any_labels(const Dataset& from) const {
    ElementSpec both;
    const size_t inputs = model_.inputs.size();
    for (size_t i = 0; i < inputs; ++i) both.push_back(from.element()[i]);
    for (size_t i = 0; i < model_.targets.size(); ++i) {
      const TensorType& type = model_.targets[i].type;
      both.push_back(
          {inputs + i == 1 ? "y" : model_.targets[i].name, type.dtype, {element_count(type.shape).count()}, {}});
    }
    return from.map(both, [inputs](const ElementView& sample, const ElementSlot& to) {
      for (size_t i = 0; i < to.spec().size(); ++i)
        if (i < inputs)
          std::memcpy(to.data(i), sample.data(i), static_cast<size_t>(sample.bytes(i)));
        else
          std::memset(to.data(i), 0, static_cast<size_t>(to.spec()[i].bytes()));
    });
  }

  OpenedHalf csv(const std::string& path) const {
    expect_no_image_maps(path);
    CsvRoles roles = choose_columns(guess_csv(path, spec_.scratch_folder), path, spec_, model_, known_);
    if (const auto* const classes = known_classes(); classes != nullptr && !is_float(model_.labels().dtype))
      roles.options.classes = *classes;
    return table(open_csv(path, roles.options, label_bound()), DataKind::Csv, roles.names);
  }

  // Features of the first record that are inputs and targets, in this order.
  OpenedHalf tf_records(const std::string& path) const {
    const std::vector<std::string> paths = list_files(path, DataKind::TfRecord);
    const std::vector<TfFeature> all = guess_features(paths[0], {}, spec_.scratch_folder);
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
    return table(open_tf_records(paths, chosen, SparseIndex::kBytes, spec_.scratch_folder, label_bound()),
                 DataKind::TfRecord, {.from = path});
  }

  // For files whose samples are one image each.
  ImageOptions only_image(const std::string& path) const {
    expect_one_input(path, "images");
    if (!spec_.label.empty())
      throw Error(fmt::format("{}: has no '{}' to take labels from; the labels of images are their folders, or stand "
                              "beside their names in a list",
                              path, spec_.label),
                  ErrorKind::Usage);
    ImageOptions options = image_options(path, model_.input());
    if (const auto* const classes = known_classes(); classes != nullptr) options.classes = *classes;
    return options;
  }

  void expect_one_input(const std::string& path, const char* holds) const {
    if (model_.inputs.size() == 1) return;
    refuse_half(fmt::format("{}: holds {}, but {} takes {}; give an archive, records or a table with these names", path,
                            holds, model_.name(), fmt::join(component_names(model_), ", ")));
  }

  // Images as the model takes them, in bytes.
  ImageOptions image_options(const std::string& path, const TensorType& input) const {
    const Shape& shape = input.shape;
    if (!is_image(input))
      refuse_half(fmt::format("{}: holds images, but {} takes {}", path, model_.name(), to_string(input)));
    const int64_t channels = shape[1].count();
    if (channels != 1 && channels != 3)
      refuse_half(
          fmt::format("{}: images have 3 channels, or 1 in gray, but {} takes {}", path, model_.name(), channels));
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

  OpenedHalf checked(OpenedHalf half) const {
    const ElementSpec& spec = half.samples.elements.element();
    const std::vector<TensorType> types = component_types(model_);
    for (size_t i = 0; i < types.size(); ++i) expect_samples(spec[i], types[i], half.samples.paths[i]);
    return half;
  }

  static void expect_samples(const Component& from, const TensorType& wanted, const std::string& path) {
    expect_channels_first(from, wanted, path);
    const int64_t elements = element_count(from.shape), want = element_count(wanted.shape).count();
    if (elements == want) return;
    refuse_half(
        fmt::format("'{}' has samples of {} numbers {} but the model takes {} ({}); choose another model, image size "
                    "or number of channels",
                    path, elements, to_string(from.shape), want, to_string(wanted)));
  }

  // Numbers would be taken for other pixels without a word.
  static void expect_channels_first(const Component& from, const TensorType& wanted, const std::string& path) {
    if (!is_image(wanted) || from.shape.rank() != 3) return;
    const int64_t channels = wanted.shape[1].count(), height = wanted.shape[2].count(), width = wanted.shape[3].count();
    if (channels == 1 || height * width == 1 || from.shape[2] != channels || from.shape[0] != height ||
        from.shape[1] != width || from.shape[0] == channels)
      return;
    refuse_half(
        fmt::format("'{}' has samples of {}, with the channels last, but the model takes [{},{},{}]; transpose "
                    "them: x.transpose(0, 3, 1, 2) in numpy",
                    path, to_string(from.shape), channels, height, width));
  }

  const DataSpec& spec_;
  const ModelSpec& model_;
  const KnownNames& known_;
};

}  // namespace

OpenedHalf open_half(const HalfPlace& place, const DataSpec& spec, const ModelSpec& model, const KnownNames& known) {
  const HalfOpener opener(spec, model, known);
  if (!place.path.empty()) return opener.open(place.path);
  if (const std::string labels = array_stem(place.y); !spec.label.empty() && spec.label != labels)
    throw Error(fmt::format("{}: has no '{}' to take labels from; its labels are '{}'", place.y, spec.label, labels),
                ErrorKind::Usage);
  return opener.array_files({place.x, place.y}, DataKind::Arrays);
}

}  // namespace plimsoll::input
