#include "input/image/image_files.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/files/class_names.h"
#include "input/files/csv_walk.h"
#include "input/files/refuse.h"
#include "input/files/sampled_hash.h"
#include "memory/file.h"

namespace plimsoll::input {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostLookedAt = 10'000;
constexpr Bytes kLongestLine = 64 * KiB;
constexpr size_t kMostClasses = 100'000;

// Names and labels in one block each, made once their sizes are known.
class FileNames {
 public:
  FileNames(int64_t files, Bytes name_bytes, const std::string& path)
      : files_(files), name_bytes_(name_bytes), path_(path), names_(new char[static_cast<size_t>(name_bytes)]) {
    if (name_bytes > std::numeric_limits<uint32_t>::max())
      refuse(path, fmt::format("the names of {} files take more than 4 GiB; split them", files));
    starts_.reserve(static_cast<size_t>(files));
    labels_.reserve(static_cast<size_t>(files));
  }

  void add(std::string_view name, uint32_t label) {
    const auto room = static_cast<size_t>(name_bytes_ - used_);
    if (static_cast<int64_t>(starts_.size()) == files_ || name.size() + 1 > room)
      refuse(path_, "files were added while it was read; try again");
    starts_.push_back(static_cast<uint32_t>(used_));
    labels_.push_back(label);
    std::memcpy(names_.get() + used_, name.data(), name.size());
    used_ += static_cast<Bytes>(name.size());
    names_[static_cast<size_t>(used_++)] = '\0';
  }

  // Orders the files from `first` on by their names; they have one label.
  void sort_from(int64_t first) {
    std::sort(starts_.begin() + first, starts_.end(),
              [&](uint32_t a, uint32_t b) { return std::strcmp(&names_[a], &names_[b]) < 0; });
  }

  int64_t files() const { return static_cast<int64_t>(starts_.size()); }
  const char* name(int64_t file) const { return &names_[starts_[static_cast<size_t>(file)]]; }
  uint32_t label(int64_t file) const { return labels_[static_cast<size_t>(file)]; }
  Bytes bytes() const { return name_bytes_ + files_ * Bytes(2 * sizeof(uint32_t)); }

 private:
  int64_t files_;
  Bytes name_bytes_;
  std::string path_;
  std::unique_ptr<char[]> names_;
  std::vector<uint32_t> starts_, labels_;
  Bytes used_ = 0;
};

class ImageFiles final : public Table {
 public:
  ImageFiles(std::string path, std::string folder, const ImageOptions& options, FileNames names,
             std::vector<std::string> classes, bool has_labels)
      : path_(std::move(path)),
        folder_(std::move(folder)),
        options_(options),
        names_(std::move(names)),
        classes_(std::move(classes)),
        fields_{ImageReader::field("x", options)} {
    if (has_labels) fields_.push_back({"y", DType::I64, {}});
  }

  const std::string& name() const override { return path_; }
  int64_t elements() const override { return names_.files(); }
  const std::vector<TableField>& fields() const override { return fields_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label_count() const override {
    int64_t count = static_cast<int64_t>(classes_.size());
    for (int64_t file = 0; classes_.empty() && fields_.size() > 1 && file < elements(); ++file)
      count = std::max(count, int64_t{names_.label(file)} + 1);
    return count;
  }
  uint64_t contents() const override;
  Bytes held_bytes() const override {
    Bytes bytes = names_.bytes();
    for (const std::string& one : classes_) bytes += static_cast<Bytes>(sizeof(std::string) + one.size());
    return bytes;
  }
  Bytes reader_bytes() const override { return ImageReader::bytes(options_); }
  std::unique_ptr<TableReader> open_reader() const override;

 private:
  friend class ImageFileReader;
  std::string path_of(int64_t element) const {
    std::string path;
    write_path(element, path);
    return path;
  }
  // Files of a class are named below its folder. No allocation once the text has had a long path.
  void write_path(int64_t element, std::string& path) const {
    const char* const name = names_.name(element);
    path.clear();
    if (*name != '/') path.append(folder_).append("/");
    if (folder_ == path_ && !classes_.empty()) path.append(classes_[names_.label(element)]).append("/");
    path.append(name);
  }
  const std::string path_, folder_;
  const ImageOptions options_;
  const FileNames names_;
  const std::vector<std::string> classes_;
  std::vector<TableField> fields_;
};

class ImageFileReader final : public TableReader {
 public:
  explicit ImageFileReader(const ImageFiles& files) : files_(files), reader_(files.options_) {}

  void read(int64_t element, std::span<std::byte* const> into) override {
    files_.write_path(element, path_);
    reader_.read(path_, into[0]);
    if (into.size() < 2) return;
    const int64_t label = files_.names_.label(element);
    std::memcpy(into[1], &label, sizeof label);
  }

 private:
  const ImageFiles& files_;
  ImageReader reader_;
  std::string path_;
};

std::unique_ptr<TableReader> ImageFiles::open_reader() const { return std::make_unique<ImageFileReader>(*this); }

// All names and labels, and of some files spread evenly what is in them.
uint64_t ImageFiles::contents() const {
  uint64_t hash = mix_bits(static_cast<uint64_t>(options_.resize), hash_text(fmt::format("{}", options_.central_crop)));
  for (int64_t file = 0; file < elements(); ++file)
    hash = mix_bits(hash ^ hash_text(names_.name(file)), names_.label(file));
  const int64_t sampled = std::min(elements(), kHashedPieces);
  for (int64_t i = 0; i < sampled; ++i) {
    const std::string path = path_of(sampled == 1 ? 0 : i * (elements() - 1) / (sampled - 1));
    try {
      const memory::File file = memory::File::open(path);
      hash = mix_bits(hash, hash_sampled(file, 0, file.size(), path));
    } catch (const Error&) {
      hash = mix_bits(hash, 1);  // reading it says what is wrong
    }
  }
  return hash;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Calls `use` with the name, relative to `folder`, of each image below it, until that returns false or
// so many entries were seen.
void for_each_image(const std::string& folder, int64_t most_entries, const std::function<bool(const std::string&)>& use,
                    fs::directory_options options = fs::directory_options::none) {
  std::error_code error;
  fs::recursive_directory_iterator walk(folder, options, error);
  for (; !error && walk != fs::recursive_directory_iterator() && most_entries-- > 0; walk.increment(error)) {
    const fs::path& path = walk->path();
    if (is_hidden(path)) {
      if (walk->is_directory()) walk.disable_recursion_pending();
    } else if (is_image_name(path.string())) {
      if (!use(path.string().substr(folder.size() + 1))) return;
    }
  }
  if (error) refuse(folder, error.message());
}

std::vector<std::string> list_classes(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator walk(path, error);
  for (; !error && walk != fs::directory_iterator(); walk.increment(error))
    if (walk->is_directory() && !is_hidden(walk->path())) names.push_back(walk->path().filename().string());
  if (error) refuse(path, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Throws for a name that is none of the known classes.
void expect_known(const std::vector<std::string>& names, const ClassNames& known, const std::string& path) {
  for (const std::string& name : names)
    if (known.find(name) < 0)
      refuse(path, fmt::format("'{}' is none of the known classes {}; the classes here are {}", name,
                               shown_names(known.names()), shown_names(names)));
}

// Text of a label as a number, or -1.
int64_t label_number(std::string_view text) {
  int64_t value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && value <= std::numeric_limits<uint32_t>::max()
             ? value
             : -1;
}

// The different labels of a list, sorted.
template <class Walk>
std::vector<std::string> list_labels(const Walk& walk_lines, const std::string& path) {
  std::set<std::string, std::less<>> names;
  walk_lines([&](std::string_view, std::string_view label) {
    if (names.find(label) != names.end()) return;
    if (names.size() == kMostClasses)
      refuse(path, fmt::format("there are more than {} different labels", kMostClasses));
    names.emplace(label);
  });
  return {names.begin(), names.end()};
}

char find_separator(const memory::File& file, const std::string& path) {
  std::string front(4096, '\0');
  front.resize(static_cast<size_t>(file.read_some(0, 4096, front.data(), path)));
  front.resize(std::min(front.find('\n'), front.size()));
  for (const char separator : {'\t', ',', ' '})
    if (front.find(separator) != std::string::npos) return separator;
  refuse(path, "row 1: no tab, comma or blank between a path and a label");
}

}  // namespace

bool is_image_name(const std::string& path) {
  std::string end = fs::path(path).extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

bool holds_images(const std::string& folder) {
  bool has_any = false;
  // A folder of the system has others that nobody may read: they don't make it one of data, or an unreadable one.
  for_each_image(
      folder, kMostLookedAt, [&](const std::string&) { return !(has_any = true); },
      fs::directory_options::skip_permission_denied);
  return has_any;
}

std::unique_ptr<Table> open_image_folder(const std::string& given, const ImageOptions& options) {
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::vector<std::string> classes = list_classes(path);
  const bool has_labels = !classes.empty();
  const ClassNames known(has_labels && !options.classes.empty() ? options.classes : classes);
  expect_known(classes, known, path);
  const auto folder_of = [&](const std::string& name) { return has_labels ? path + "/" + name : path; };
  const std::vector<std::string> folders = has_labels ? classes : std::vector<std::string>{""};
  int64_t files = 0;
  Bytes name_bytes = 0;
  for (const std::string& folder : folders) {
    const int64_t before = files;
    for_each_image(folder_of(folder), kAll, [&](const std::string& name) {
      ++files;
      name_bytes += static_cast<Bytes>(name.size()) + 1;
      return true;
    });
    if (files == before)
      refuse(folder_of(folder), has_labels ? "this class holds no JPEG or PNG file; remove the folder"
                                           : "the folder holds no JPEG or PNG file and no folders of them");
  }
  FileNames names(files, name_bytes, path);
  for (const std::string& folder : folders) {
    const int64_t first = names.files();
    const auto label = static_cast<uint32_t>(has_labels ? known.find(folder) : 0);
    for_each_image(folder_of(folder), kAll, [&](const std::string& name) {
      names.add(name, label);
      return true;
    });
    names.sort_from(first);
  }
  return std::make_unique<ImageFiles>(path, path, options, std::move(names), known.names(), has_labels);
}

std::unique_ptr<Table> open_image_list(const std::string& path, const ImageOptions& options) {
  const memory::File file = memory::File::open(path);
  const CsvSyntax syntax{.separator = find_separator(file, path)};
  bool are_numbers = true;
  int64_t files = 0;
  Bytes name_bytes = 0;
  const auto walk_lines = [&](const auto& use) {
    CsvWalk walk(file, path, syntax, kLongestLine);
    while (walk.next()) {
      if (walk.fields().size() != 2) walk.refuse("", "a path and a label are wanted, with one separator between them");
      if (walk.fields()[0].empty() || walk.fields()[1].empty()) walk.refuse("", "the path or the label is empty");
      use(walk.fields()[0], walk.fields()[1]);
    }
  };
  walk_lines([&](std::string_view name, std::string_view label) {
    ++files;
    name_bytes += static_cast<Bytes>(name.size()) + 1;
    are_numbers = are_numbers && label_number(label) >= 0;
  });
  if (files == 0) refuse(path, "the list is empty");
  are_numbers = are_numbers && options.classes.empty();
  std::vector<std::string> classes = are_numbers ? std::vector<std::string>{} : list_labels(walk_lines, path);
  const ClassNames known(options.classes.empty() ? classes : options.classes);
  expect_known(classes, known, path);
  FileNames names(files, name_bytes, path);
  walk_lines([&](std::string_view name, std::string_view label) {
    names.add(name, static_cast<uint32_t>(are_numbers ? label_number(label) : known.find(label)));
  });
  const std::string folder = fs::path(path).parent_path().string();
  return std::make_unique<ImageFiles>(path, folder.empty() ? "." : folder, options, std::move(names), known.names(),
                                      true);
}

}  // namespace plimsoll::input
