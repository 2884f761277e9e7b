// Sources: arrays in memory, ranges, array files, generators.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "base/random.h"
#include "input/files/held_source.h"
#include "input/files/label_source.h"
#include "input/files/sampled_hash.h"
#include "input/files/source.h"
#include "input/origin.h"
#include "input/stages/labelled_files.h"

namespace plimsoll {
namespace {

using input::Rows;

int64_t common_length(const std::vector<std::pair<std::string, int64_t>>& lengths) {
  for (const auto& [name, length] : lengths)
    if (length != lengths.front().second)
      throw Error(fmt::format("{} has {} samples but {} has {}; give data that belongs together", name, length,
                              lengths.front().first, lengths.front().second),
                  ErrorKind::BadData);
  return lengths.front().second;
}

// Rows that lie one after the other are read at once.
template <class Read>
void read_rows(Bytes row_bytes, size_t component, int64_t first, const Rows& rows, const Read& read) {
  if (rows.stride(component) == row_bytes) return read(first, rows.count(), rows.at(component, 0));
  for (int64_t row = 0; row < rows.count(); ++row) read(first + row, 1, rows.at(component, row));
}

class ArraysOrigin final : public input::Origin {
 public:
  explicit ArraysOrigin(std::vector<NamedArray> arrays) : arrays_(std::move(arrays)) {
    if (arrays_.empty()) throw Error("slices needs at least one array", ErrorKind::Usage);
    std::vector<std::pair<std::string, int64_t>> lengths;
    for (const NamedArray& array : arrays_) {
      if (array.dims.empty())
        throw Error(fmt::format("array '{}' has no dimensions; the first one counts elements", array.name),
                    ErrorKind::Usage);
      if (element_count(array.dims) * size_of(array.dtype) != array.bytes)
        throw Error(
            fmt::format("array '{}' has {} bytes but {}{} has {}", array.name, array.bytes, name_of(array.dtype),
                        to_string(array.dims), element_count(array.dims) * size_of(array.dtype)),
            ErrorKind::Usage);
      Dims shape = array.dims;
      shape.erase(0);
      element_.push_back({array.name, array.dtype, shape, shape});
      lengths.emplace_back(fmt::format("array '{}'", array.name), array.dims[0]);
    }
    count_ = common_length(lengths);
  }

  const ElementSpec& element() const override { return element_; }
  int64_t count() const override { return count_; }
  std::string text() const override { return fmt::format("slices({} of {})", count_, to_string(element_)); }
  std::string identity() const override {
    uint64_t hash = 0;
    for (const NamedArray& array : arrays_)
      hash = mix_bits(
          hash, input::hash_sampled({static_cast<const std::byte*>(array.data), static_cast<size_t>(array.bytes)}));
    return fmt::format("{} {:016x}", text(), hash);
  }
  Bytes kept_bytes() const override {
    Bytes kept = 0;
    for (const NamedArray& array : arrays_) kept += array.owner != nullptr ? array.bytes : 0;
    return kept;
  }
  void read(int64_t first, const Rows& rows) const override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const Bytes bytes = element_[i].bytes();
      const auto* const from = static_cast<const std::byte*>(arrays_[i].data);
      read_rows(bytes, i, first, rows, [&](int64_t at, int64_t count, std::byte* into) {
        if (bytes > 0) std::memcpy(into, from + at * bytes, static_cast<size_t>(count * bytes));
      });
    }
  }

 private:
  const std::vector<NamedArray> arrays_;
  ElementSpec element_;
  int64_t count_ = 0;
};

class RangeOrigin final : public input::Origin {
 public:
  RangeOrigin(int64_t start, int64_t stop, int64_t step) : start_(start), stop_(stop), step_(step) {
    if (step == 0) throw Error("a range with step 0 never ends; give another step", ErrorKind::Usage);
    const int64_t distance = step > 0 ? stop - start : start - stop;
    const int64_t stride = step > 0 ? step : -step;
    count_ = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  }

  const ElementSpec& element() const override { return element_; }
  int64_t count() const override { return count_; }
  std::string text() const override { return fmt::format("range({},{},{})", start_, stop_, step_); }
  void read(int64_t first, const Rows& rows) const override {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t value = start_ + (first + row) * step_;
      std::memcpy(rows.at(0, row), &value, sizeof value);
    }
  }

 private:
  const int64_t start_, stop_, step_;
  const ElementSpec element_{{"value", DType::I64, {}, {}}};
  int64_t count_;
};

class FilesOrigin final : public input::Origin {
 public:
  FilesOrigin(const std::vector<std::pair<std::string, std::string>>& names_and_paths,
              const std::string& scratch_folder, const input::LabelRule& labels = {}) {
    if (names_and_paths.empty()) throw Error("files needs at least one path", ErrorKind::Usage);
    std::vector<std::pair<std::string, int64_t>> lengths;
    for (const auto& [name, path] : names_and_paths) {
      std::unique_ptr<input::Source> opened = input::open_source(path, {scratch_folder});
      held_bytes_ += input::bytes_to_hold(*opened);
      all_held_ &= input::bytes_to_hold(*opened) > 0;
      sources_.push_back(input::hold_if_small(std::move(opened)));
      if (name == labels.component) sources_.back() = input::check_labels(std::move(sources_.back()), labels.classes);
      const input::Source& source = *sources_.back();
      const Dims shape = Dims::from(source.sample_shape());
      element_.push_back({name, source.dtype(), shape, shape});
      lengths.emplace_back(path, source.samples());
      paths_ += (paths_.empty() ? "" : ",") + path;
    }
    count_ = common_length(lengths);
  }

  const ElementSpec& element() const override { return element_; }
  int64_t count() const override { return count_; }
  std::string text() const override { return fmt::format("files({})", paths_); }
  std::string identity() const override {
    uint64_t hash = 0;
    for (const auto& source : sources_) hash = mix_bits(hash, source->contents());
    return fmt::format("files({} of {}, {:016x})", count_, to_string(element_), hash);
  }
  Bytes bytes() const override { return held_bytes_; }
  bool is_slow_out_of_order() const override { return !all_held_; }
  void read(int64_t first, const Rows& rows) const override {
    for (size_t i = 0; i < sources_.size(); ++i)
      read_rows(element_[i].bytes(), i, first, rows,
                [&](int64_t at, int64_t count, std::byte* into) { sources_[i]->read(at, count, into); });
  }

 private:
  std::vector<std::unique_ptr<input::Source>> sources_;
  ElementSpec element_;
  std::string paths_;
  Bytes held_bytes_ = 0;
  bool all_held_ = true;
  int64_t count_ = 0;
};

class GeneratorReader final : public input::StreamReader {
 public:
  GeneratorReader(const ElementSpec& spec, Generator generator) : spec_(spec), generator_(std::move(generator)) {}

  int64_t pull(const Rows& rows) override {
    if (is_over_) return 0;
    set_largest(spec_, rows, 0);
    is_over_ = !generator_(rows.slot(spec_, 0));
    return is_over_ ? 0 : 1;
  }

 private:
  const ElementSpec& spec_;
  const Generator generator_;
  bool is_over_ = false;
};

class GeneratorOrigin final : public input::StreamOrigin {
 public:
  GeneratorOrigin(ElementSpec spec, GeneratorFactory factory)
      : element_(input::checked(std::move(spec))), factory_(std::move(factory)) {
    if (!factory_) throw Error("a generator needs a function that makes it", ErrorKind::Usage);
  }

  const ElementSpec& element() const override { return element_; }
  std::string text() const override { return fmt::format("generator({})", to_string(element_)); }
  std::unique_ptr<input::StreamReader> open() const override {
    return std::make_unique<GeneratorReader>(element_, factory_());
  }

 private:
  const ElementSpec element_;
  const GeneratorFactory factory_;
};

template <class Kind, class... Arguments>
Dataset dataset_of(Arguments&&... arguments) {
  return input::make_dataset(input::from_origin(std::make_shared<const Kind>(std::forward<Arguments>(arguments)...)));
}

}  // namespace

Dataset input::labelled_files(const std::vector<std::pair<std::string, std::string>>& names_and_paths,
                              const LabelRule& labels, const std::string& scratch_folder) {
  return dataset_of<FilesOrigin>(names_and_paths, scratch_folder, labels);
}
Dataset Dataset::slices(std::vector<NamedArray> arrays) { return dataset_of<ArraysOrigin>(std::move(arrays)); }
Dataset Dataset::range(int64_t stop) { return range(0, stop); }
Dataset Dataset::range(int64_t start, int64_t stop, int64_t step) { return dataset_of<RangeOrigin>(start, stop, step); }
Dataset Dataset::files(const std::vector<std::pair<std::string, std::string>>& names_and_paths,
                       const std::string& scratch_folder) {
  return dataset_of<FilesOrigin>(names_and_paths, scratch_folder);
}
Dataset Dataset::generator(ElementSpec spec, GeneratorFactory factory) {
  return dataset_of<GeneratorOrigin>(std::move(spec), std::move(factory));
}

}  // namespace plimsoll
