#include "input/opening/detect.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/random.h"
#include "input/files/csv.h"
#include "input/files/csv_guess.h"
#include "input/files/npz.h"
#include "input/files/stored_array.h"
#include "input/files/tf_table.h"
#include "input/files/wire.h"
#include "input/image/image_files.h"
#include "memory/file.h"

namespace plimsoll::input {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFrontBytes = 4096;
constexpr size_t kShownClasses = 10;

bool is_text(std::string_view front) {
  return !front.empty() && std::all_of(front.begin(), front.end(), [](unsigned char c) {
    return c >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

// A text whose first line is a path of an image, a separator and a label; else one with separated columns, or none.
DataKind kind_of_text(std::string_view front) {
  const std::string_view line = front.substr(0, front.find_first_of("\r\n"));
  const size_t separator = line.find_first_of("\t,; ");
  if (separator == std::string_view::npos) return DataKind::None;
  if (is_image_name(std::string(line.substr(0, separator)))) return DataKind::ImageList;
  return line.find_first_of("\t,;") == std::string_view::npos ? DataKind::None : DataKind::Csv;
}

bool is_tf_record(std::span<const std::byte> front) {
  return front.size() >= 12 && little_endian_at<uint32_t>(front.data() + 8) == masked_crc32c(front.first(8));
}

bool is_array(std::span<const std::byte> front) {
  if (text_of(front).starts_with("\x93NUMPY")) return true;
  const auto byte = [&](size_t i) { return std::to_integer<int>(front[i]); };
  return front.size() >= 8 && byte(0) == 0 && byte(1) == 0 && byte(2) >= 0x08 && byte(2) <= 0x0e && byte(3) > 0;
}

bool names_csv(const std::string& path) {
  for (const char* end : {".csv", ".tsv", ".csv.gz", ".tsv.gz"})
    if (path.ends_with(end)) return true;
  return false;
}

// The kind of a .gz file is known by its name only.
DataKind kind_of_packed(const std::string& path) {
  if (names_csv(path)) return DataKind::Csv;
  return fs::path(path).filename().string().find(".tfrecord") != std::string::npos ? DataKind::TfRecord
                                                                                   : DataKind::Array;
}

DataKind kind_of_file(const std::string& path) {
  const memory::File file = memory::File::open(path);
  std::array<std::byte, kFrontBytes> buffer;
  const Bytes got = file.read_some(0, Bytes(buffer.size()), buffer.data(), path);
  const std::span<const std::byte> front = std::span(buffer).first(static_cast<size_t>(got));
  if (is_gzip(front)) return kind_of_packed(path);
  if (is_zip(front)) return DataKind::Npz;
  if (is_tf_record(front)) return DataKind::TfRecord;
  if (is_array(front)) return DataKind::Array;
  if (!is_text(text_of(front))) return DataKind::None;
  const DataKind kind = kind_of_text(text_of(front));
  return kind == DataKind::None && names_csv(path) ? DataKind::Csv : kind;
}

DataKind kind_of_folder(const std::string& path) {
  if (holds_images(path)) return DataKind::Images;
  for (const DataKind kind : {DataKind::TfRecord, DataKind::Array})
    if (!list_files(path, kind).empty()) return kind == DataKind::Array ? DataKind::Arrays : kind;
  return DataKind::None;
}

// Sources of equal length, read side by side. They hold nothing.
class ArrayTable final : public Table {
 public:
  ArrayTable(std::string path, std::vector<std::pair<std::string, std::unique_ptr<Source>>>&& sources)
      : path_(std::move(path)) {
    for (auto& [name, source] : sources) {
      if (!sources_.empty() && source->samples() != elements()) continue;
      fields_.push_back({name, source->dtype(), source->sample_shape()});
      sources_.push_back(std::move(source));
    }
  }
  const std::string& name() const override { return path_; }
  int64_t elements() const override { return sources_.front()->samples(); }
  const std::vector<TableField>& fields() const override { return fields_; }
  uint64_t contents() const override {
    uint64_t hash = 0;
    for (const auto& source : sources_) hash = mix_bits(hash, source->contents());
    return hash;
  }
  Bytes held_bytes() const override { return 0; }
  Bytes reader_bytes() const override { return 0; }
  std::unique_ptr<TableReader> open_reader() const override {
    class Reader final : public TableReader {
     public:
      explicit Reader(const ArrayTable& table) : table_(table) {}
      void read(int64_t element, std::span<std::byte* const> into) override {
        for (size_t i = 0; i < into.size(); ++i) table_.sources_[i]->read(element, 1, into[i]);
      }

     private:
      const ArrayTable& table_;
    };
    return std::make_unique<Reader>(*this);
  }

 private:
  const std::string path_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<TableField> fields_;
};

std::unique_ptr<Table> open_arrays(const std::string& path, DataKind kind, const SourceOptions& options) {
  std::vector<std::pair<std::string, std::unique_ptr<Source>>> sources;
  if (kind == DataKind::Array) {
    sources.emplace_back("x", open_source(path, options));
  } else {
    for (const std::string& name : list_npz(path)) sources.emplace_back(name, open_npz(path, name, options));
  }
  if (sources.empty()) throw Error(fmt::format("{}: the archive is empty", path), ErrorKind::BadData);
  return std::make_unique<ArrayTable>(path, std::move(sources));
}

// Where exactly one column holds words, it is the label.
CsvOptions with_classes(CsvOptions options) {
  const auto holds_words = [](const CsvColumn& column) { return column.type == CsvType::Category; };
  if (std::ranges::count_if(options.columns, holds_words) == 1)
    options.label = std::ranges::find_if(options.columns, holds_words)->column;
  return options;
}

std::string field_text(const TableField& field) {
  return fmt::format("{} {}[{}]", field.name, plimsoll::name_of(field.dtype), fmt::join(field.shape, ","));
}

// Neighbouring columns of one type are shown by the first and the last: "x_0 f32[] ... x_783 f32[] (784 alike)".
std::string fields_text(const std::vector<TableField>& fields) {
  constexpr size_t kShownAlike = 8;
  std::string text;
  for (size_t i = 0; i < fields.size();) {
    size_t end = i + 1;
    while (end < fields.size() && fields[end].dtype == fields[i].dtype && fields[end].shape == fields[i].shape) ++end;
    const bool is_short = end - i <= kShownAlike;
    text += (text.empty() ? "" : ", ") + field_text(fields[i]);
    if (!is_short) text += fmt::format(" ... {} ({} alike)", field_text(fields[end - 1]), end - i);
    i = is_short ? i + 1 : end;
  }
  return text;
}

}  // namespace

std::string_view name_of(DataKind kind) {
  switch (kind) {
    case DataKind::Array:
      return "an array file";
    case DataKind::Arrays:
      return "a folder of array files";
    case DataKind::Npz:
      return "an archive of arrays (npz)";
    case DataKind::Csv:
      return "a CSV file";
    case DataKind::TfRecord:
      return "TFRecord data";
    case DataKind::Images:
      return "a folder of images";
    case DataKind::ImageList:
      return "a list of images";
    case DataKind::None:
      break;
  }
  return "no data";
}

DataKind find_kind(const std::string& path) {
  if (split_npz_path(path)) return DataKind::Array;
  std::error_code error;
  return fs::is_directory(path, error) ? kind_of_folder(path) : kind_of_file(path);
}

Halves find_halves(const std::string& folder) {
  constexpr std::string_view kTrainNames[] = {"train", "training"};
  constexpr std::string_view kTestNames[] = {"test", "val", "valid", "validation"};
  Halves halves;
  bool has_other_folder = false;
  std::error_code error, no_folder;
  for (fs::directory_iterator walk(folder, error); !error && walk != fs::directory_iterator(); walk.increment(error)) {
    const std::string name = walk->path().filename().string(), stem = name.substr(0, name.find('.'));
    if (std::ranges::find(kTrainNames, stem) != std::end(kTrainNames))
      halves.train = walk->path().string();
    else if (std::ranges::find(kTestNames, stem) != std::end(kTestNames))
      halves.test = walk->path().string();
    else
      has_other_folder = has_other_folder || (walk->is_directory(no_folder) && !name.starts_with('.'));
  }
  const bool is_class = has_other_folder && fs::is_directory(halves.train, no_folder);
  return halves.train.empty() || is_class ? Halves{} : halves;
}

std::vector<std::string> list_files(const std::string& path, DataKind kind) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> paths;
  std::error_code no_file;  // a link that leads nowhere is passed over
  for (fs::directory_iterator walk(path, error); !error && walk != fs::directory_iterator(); walk.increment(error))
    if (walk->is_regular_file(no_file) && find_kind(walk->path().string()) == kind)
      paths.push_back(walk->path().string());
  if (error) throw Error(fmt::format("{}: {}", path, error.message()), ErrorKind::BadData);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::unique_ptr<Table> open_table(const std::string& path, const SourceOptions& options) {
  const DataKind kind = find_kind(path);
  switch (kind) {
    case DataKind::Array:
    case DataKind::Npz:
      return open_arrays(path, kind, options);
    case DataKind::Csv:
      return open_csv(path, with_classes(guess_csv(path, options.scratch_dir)));
    case DataKind::TfRecord: {
      const std::vector<std::string> paths = list_files(path, kind);
      return open_tf_records(paths, guess_features(paths[0]));
    }
    case DataKind::Images:
      return open_image_folder(path);
    case DataKind::ImageList:
      return open_image_list(path);
    case DataKind::Arrays:
      throw Error(fmt::format("{}: holds several array files; give one of them", path), ErrorKind::BadData);
    case DataKind::None:
      break;
  }
  throw Error(
      fmt::format("{}: is no data that can be read; give idx, npy, npz, CSV or TFRecord files, a folder of JPEG "
                  "or PNG files in a folder for each class, or a list of image paths and labels",
                  path),
      ErrorKind::BadData);
}

DataFacts detect(const std::string& path, const SourceOptions& options) {
  DataFacts facts{.kind = find_kind(path), .path = path, .parts = {}, .classes = {}};
  if (facts.kind == DataKind::Arrays) {
    for (const std::string& file : list_files(path, DataKind::Array)) {
      const auto source = open_source(file, options);
      facts.parts.push_back(
          {fs::path(file).filename().string(), source->samples(), {{"x", source->dtype(), source->sample_shape()}}});
    }
    return facts;
  }
  const auto table = open_table(path, options);
  facts.parts.push_back({fs::path(path).filename().string(), table->elements(), table->fields()});
  facts.classes = table->classes();
  return facts;
}

std::string describe(const DataFacts& facts) {
  std::string text = fmt::format("{}: {}", facts.path, name_of(facts.kind));
  for (const DataPart& part : facts.parts) {
    text += fmt::format("{}{} elements of {}", facts.parts.size() > 1 ? fmt::format("\n  {}: ", part.name) : ", ",
                        part.elements, fields_text(part.fields));
  }
  if (!facts.classes.empty()) {
    const auto shown = static_cast<int64_t>(std::min(facts.classes.size(), kShownClasses));
    text += fmt::format("; {} classes: {}{}", facts.classes.size(),
                        fmt::join(facts.classes.begin(), facts.classes.begin() + shown, ", "),
                        facts.classes.size() > kShownClasses ? ", ..." : "");
  }
  return text + "\n";
}

}  // namespace plimsoll::input
