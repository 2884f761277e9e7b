// Options of sources and of image stages, from dicts with the names that plimsoll.data gives them.
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "python/elements.h"
#include "python/types.h"

namespace plimsoll::python {
namespace {

// Reads a dict entry by entry; what nobody asked for is an error.
class Options {
 public:
  Options(const char* function, const nb::dict& given) : function_(function), given_(given) {}

  nb::handle get(const char* name) const {
    const nb::handle value = PyDict_GetItemString(given_.ptr(), name);
    return value.is_valid() && !value.is_none() ? value : nb::handle();
  }
  ArgumentPlace at(const char* name) const { return {function_, name}; }
  void read(const char* name, int64_t& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = to_int(v, at(name));
  }
  void read(const char* name, int& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = static_cast<int>(to_int(v, at(name)));
  }
  void read(const char* name, uint64_t& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = static_cast<uint64_t>(to_int(v, at(name)));
  }
  void read(const char* name, bool& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = is_true(v, at(name));
  }
  void read(const char* name, double& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = to_double(v, at(name));
  }
  void read(const char* name, float& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = static_cast<float>(to_double(v, at(name)));
  }
  void read(const char* name, std::string& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = to_text(v, at(name));
  }
  void read(const char* name, std::vector<float>& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = nb::cast<std::vector<float>>(v);
  }
  void read(const char* name, std::vector<std::string>& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = nb::cast<std::vector<std::string>>(v);
  }
  void read(const char* name, std::optional<double>& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = to_double(v, at(name));
  }
  void read(const char* name, DType& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = to_dtype(v, at(name));
  }
  void read(const char* name, ResizeMethod& into) const {
    const nb::handle v = get(name);
    if (!v.is_valid()) return;
    const std::string text = to_text(v, at(name));
    if (text == "bilinear")
      into = ResizeMethod::Bilinear;
    else if (text == "area")
      into = ResizeMethod::Area;
    else if (text == "none")
      into = ResizeMethod::None;
    else
      refuse_argument(at(name), "\"bilinear\", \"area\" or \"none\"", v);
  }
  void read_bytes(const char* name, Bytes& into) const {
    if (const nb::handle v = get(name); v.is_valid()) into = to_bytes(v, at(name));
  }
  void read_size(const char* name, int64_t& height, int64_t& width) const {
    const nb::handle v = get(name);
    if (!v.is_valid()) return;
    const Size2d size = to_size(v, at(name));
    height = size[0];
    width = size[1];
  }

 private:
  const char* function_;
  const nb::dict& given_;
};

CsvType csv_type(nb::handle given, const ArgumentPlace& at) {
  const std::string text = to_text(given, at);
  if (text == "float") return CsvType::Float;
  if (text == "integer") return CsvType::Integer;
  if (text == "category") return CsvType::Category;
  refuse_argument(at, "\"float\", \"integer\" or \"category\"", given);
}

ImageOptions image_options(const Options& options) {
  ImageOptions image;
  options.read_size("image_size", image.height, image.width);
  options.read("channels", image.channels);
  options.read("resize", image.resize);
  options.read("central_crop", image.central_crop);
  options.read("dtype", image.dtype);
  options.read("channels_first", image.channels_first);
  options.read("scale", image.scale);
  options.read("mean", image.mean);
  options.read("stddev", image.stddev);
  options.read("shrinks_in_decoder", image.shrinks_in_decoder);
  options.read_bytes("image_bytes", image.image_bytes);
  options.read("class_names", image.classes);
  options.read("most_pixels", image.most_pixels);
  return image;
}

int threads_of(const Options& options) {
  int threads = AUTOTUNE;
  options.read("threads", threads);
  return threads;
}

}  // namespace

Dataset csv_of(const std::string& path, const nb::dict& given) {
  const Options options("from_csv", given);
  CsvOptions csv;
  if (const nb::handle v = options.get("separator"); v.is_valid())
    csv.syntax.separator = to_text(v, options.at("separator"))[0];
  if (const nb::handle v = options.get("quote"); v.is_valid()) csv.syntax.quote = to_text(v, options.at("quote"))[0];
  options.read("has_header", csv.has_header);
  options.read("label", csv.label);
  options.read("class_names", csv.classes);
  options.read("missing", csv.missing);
  options.read("scratch", csv.scratch_dir);
  options.read_bytes("index_bytes", csv.index_bytes);
  options.read_bytes("longest_row", csv.longest_row);
  options.read_bytes("category_bytes", csv.category_bytes);
  if (const nb::handle v = options.get("label_type"); v.is_valid())
    csv.label_type = csv_type(v, options.at("label_type"));
  if (const nb::handle columns = options.get("columns"); columns.is_valid())
    for (nb::handle one : columns) {
      CsvColumn column;
      if (PyUnicode_Check(one.ptr())) {
        column.column = nb::cast<std::string>(one);
      } else {
        const nb::tuple parts = nb::cast<nb::tuple>(one);
        column.column = nb::cast<std::string>(nb::str(parts[0]));
        if (nb::len(parts) > 1) column.type = csv_type(parts[1], options.at("columns"));
        if (nb::len(parts) > 2) column.field = nb::cast<std::string>(parts[2]);
      }
      csv.columns.push_back(column);
    }
  const int threads = threads_of(options);
  const nb::gil_scoped_release release;
  return Dataset::csv(path, csv, threads);
}

Dataset tfrecord_of(const std::vector<std::string>& paths, nb::handle features, int threads) {
  std::vector<TfFeature> wanted;
  if (!features.is_none())
    for (nb::handle one : features) {
      const nb::dict given = nb::cast<nb::dict>(one);
      const Options options("from_tfrecord", given);
      TfFeature feature;
      options.read("name", feature.name);
      options.read("dtype", feature.dtype);
      if (const nb::handle v = options.get("shape"); v.is_valid()) feature.shape = nb::cast<std::vector<int64_t>>(v);
      options.read("default", feature.fallback);
      options.read("is_label", feature.is_label);
      if (const nb::handle v = options.get("image"); v.is_valid()) {
        const nb::dict image = nb::cast<nb::dict>(v);
        feature.image = image_options(Options("from_tfrecord", image));
      }
      wanted.push_back(feature);
    }
  const nb::gil_scoped_release release;
  return Dataset::tfrecord(paths, wanted, threads);
}

Dataset images_of(const std::string& path, bool is_list, const nb::dict& given) {
  const Options options("from_images", given);
  const ImageOptions image = image_options(options);
  const int threads = threads_of(options);
  const nb::gil_scoped_release release;
  return is_list ? Dataset::image_list(path, image, threads) : Dataset::images(path, image, threads);
}

Dataset augmented(const Dataset& dataset, const nb::dict& given) {
  const Options options("augment", given);
  AugmentOptions augment;
  options.read("component", augment.images.name);
  options.read("channels_first", augment.images.channels_first);
  options.read("padding", augment.padding);
  options.read_size("crop", augment.crop_height, augment.crop_width);
  options.read("flips", augment.flips);
  options.read("brightness", augment.brightness);
  options.read("contrast", augment.contrast);
  options.read("seed", augment.seed);
  return dataset.augment(augment, threads_of(options));
}

Dataset resized(const Dataset& dataset, const nb::dict& given) {
  const Options options("resize", given);
  ImageResize resize;
  options.read("component", resize.images.name);
  options.read("channels_first", resize.images.channels_first);
  options.read_size("size", resize.height, resize.width);
  options.read("method", resize.method);
  return dataset.resize(resize, threads_of(options));
}

}  // namespace plimsoll::python
