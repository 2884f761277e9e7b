#include "input/files/csv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/files/class_names.h"
#include "input/files/csv_number.h"
#include "input/files/csv_walk.h"
#include "input/files/inflate.h"
#include "input/files/sampled_hash.h"
#include "input/files/sparse_index.h"
#include "memory/file.h"
#include "memory/temporary_file.h"

namespace plimsoll::input {
namespace {

constexpr Bytes kWindowBytes = 64 * KiB;

// The field that a column is written to.
struct Target {
  size_t column = 0;
  CsvType type = CsvType::Float;
  size_t field = 0;
  int64_t place = 0;  // within the field
  bool is_label = false;
  ClassNames categories = {};
};

class CsvTable final : public Table {
 public:
  CsvTable(const std::string& path, const CsvOptions& options, const LabelBound& bound)
      : path_(path),
        options_(options),
        bound_(bound),
        file_(open_unpacked(path, memory::choose_scratch_dir(options.scratch_dir))),
        index_(options.index_bytes) {
    scan();
  }

  const std::string& name() const override { return path_; }
  int64_t elements() const override { return index_.count(); }
  const std::vector<TableField>& fields() const override { return fields_; }
  const std::vector<std::string>& classes() const override {
    for (const Target& target : targets_)
      if (target.is_label) return target.categories.names();
    return Table::classes();
  }
  uint64_t contents() const override {
    uint64_t hash = hash_sampled(file_, 0, file_.size(), path_);
    for (const Target& target : targets_) {
      hash = mix_bits(hash, target.column);
      for (const std::string& name : target.categories.names()) hash = mix_bits(hash, hash_text(name));
    }
    return hash;
  }
  Bytes held_bytes() const override { return index_.bytes() + category_bytes_; }
  Bytes reader_bytes() const override { return 2 * window_bytes_; }  // the window, and fields without quotes
  std::unique_ptr<TableReader> open_reader() const override;

 private:
  friend class CsvReader;

  void scan() {
    CsvWalk walk(file_, path_, options_.syntax, std::max(kWindowBytes, options_.longest_row));
    const Bytes start = skip_byte_order_mark();
    walk.seek(start, 1);
    if (!walk.next()) throw Error(fmt::format("{}: holds no row", path_), ErrorKind::BadData);
    for (size_t i = 0; i < walk.fields().size(); ++i)
      header_.emplace_back(options_.has_header ? std::string(trimmed(walk.fields()[i])) : std::to_string(i));
    choose_targets(start);
    std::vector<std::set<std::string, std::less<>>> categories(targets_.size());
    if (!options_.has_header) walk.seek(start, 1);
    while (walk.next()) {
      if (walk.fields().size() != header_.size())
        walk.refuse("",
                    fmt::format("the row has {} fields, the first row has {}", walk.fields().size(), header_.size()));
      if (elements() == 0) first_row_ = walk.row_number();
      index_.add(walk.offset());
      for (size_t i = 0; i < targets_.size(); ++i)
        if (targets_[i].type == CsvType::Category) add_category(walk, targets_[i], categories[i]);
    }
    if (elements() == 0) throw Error(fmt::format("{}: holds a header and no row", path_), ErrorKind::BadData);
    for (size_t i = 0; i < targets_.size(); ++i)
      if (targets_[i].categories.is_empty())
        targets_[i].categories = ClassNames({categories[i].begin(), categories[i].end()});
    window_bytes_ = std::max(kWindowBytes, walk.longest_row() + 1);
  }

  void add_category(const CsvWalk& walk, const Target& target, std::set<std::string, std::less<>>& names) {
    const std::string_view text = trimmed(walk.fields()[target.column]);
    if (text.empty()) walk.refuse(shown(target), "a category is empty");
    if (const std::vector<std::string>& known = target.categories.names(); !known.empty()) {
      if (target.categories.find(text) < 0)
        walk.refuse(shown(target),
                    fmt::format("'{}' is none of the known classes {}", text.substr(0, 40), shown_names(known)));
      return;
    }
    if (names.find(text) != names.end()) return;
    category_bytes_ += static_cast<Bytes>(text.size() + sizeof(std::string));
    if (category_bytes_ > options_.category_bytes)
      walk.refuse(shown(target),
                  fmt::format("the names of the categories take more than {}; is it a column of numbers?",
                              format_bytes(options_.category_bytes)));
    names.emplace(text);
  }

  std::string shown(const Target& target) const { return fmt::format("'{}'", header_[target.column]); }

  Bytes skip_byte_order_mark() const {
    char front[3] = {};
    const Bytes got = file_.read_some(0, 3, front, path_);
    return std::string_view(front, static_cast<size_t>(got)) == kByteOrderMark ? 3 : 0;
  }

  size_t find_column(const std::string& name) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found != header_.end()) return static_cast<size_t>(found - header_.begin());
    size_t number = 0;
    if (parse_number(std::string_view(name), number) && number < header_.size()) return number;
    throw Error(
        fmt::format("{}: there is no column '{}'; the first of {} are {}", path_, name, header_.size(),
                    fmt::join(header_.begin(), header_.begin() + std::min<int64_t>(10, int64_t(header_.size())), ", ")),
        ErrorKind::Usage);
  }

  void choose_targets(Bytes start) {
    const size_t label = options_.label.empty() ? header_.size() : find_column(options_.label);
    if (!options_.columns.empty()) {
      for (const CsvColumn& column : options_.columns)
        add_target({.column = find_column(column.column), .type = column.type}, column.field);
      for (Target& target : targets_) target.is_label = target.column == label;
    } else {
      for (size_t i = 0; i < header_.size(); ++i)
        if (i != label) add_target({.column = i}, "x");
    }
    const bool is_chosen =
        std::any_of(targets_.begin(), targets_.end(), [](const Target& one) { return one.is_label; });
    if (label < header_.size() && !is_chosen) {
      const CsvType guessed = options_.label_type ? *options_.label_type : guess_type(start, label);
      const CsvType type = options_.classes.empty() ? guessed : CsvType::Category;
      add_target({.column = label, .type = type, .is_label = true}, options_.columns.empty() ? "y" : "", true);
    }
    for (Target& target : targets_) {
      if (!target.is_label || target.type != CsvType::Category) continue;
      target.categories = ClassNames(options_.classes);
      for (const std::string& name : options_.classes)
        category_bytes_ += static_cast<Bytes>(name.size() + sizeof(std::string));
    }
    if (targets_.empty()) throw Error(fmt::format("{}: no column is wanted", path_), ErrorKind::Usage);
  }

  void add_target(Target target, const std::string& field, bool is_alone = false) {
    const DType dtype = target.type == CsvType::Float ? DType::F32 : DType::I64;
    const std::string& name = field.empty() ? header_[target.column] : field;
    const auto same =
        std::find_if(fields_.begin(), fields_.end(), [&](const TableField& one) { return one.name == name; });
    target.field = static_cast<size_t>(same - fields_.begin());
    if (same == fields_.end()) {
      fields_.push_back({name, dtype, {}});
      if (!field.empty() && !is_alone) fields_.back().shape = {0};
    } else if (field.empty() || same->dtype != dtype || same->shape.empty()) {
      throw Error(fmt::format("{}: column '{}' cannot be part of the field '{}'; give it a field of its own", path_,
                              header_[target.column], name),
                  ErrorKind::Usage);
    }
    TableField& whole = fields_[target.field];
    if (!whole.shape.empty()) target.place = whole.shape[0]++;
    targets_.push_back(std::move(target));
  }

  // The narrowest type that the first rows of a column have.
  CsvType guess_type(Bytes start, size_t column) const {
    CsvWalk walk(file_, path_, options_.syntax, std::max(kWindowBytes, options_.longest_row));
    walk.seek(start, 1);
    if (options_.has_header) walk.next();
    CsvTypeGuess guess;
    for (int i = 0; i < kSampledRows && walk.next() && column < walk.fields().size(); ++i)
      guess.add(walk.fields()[column]);  // scan() names a row that is too short
    return guess.type();
  }

  const std::string path_;
  const CsvOptions options_;
  const LabelBound bound_;
  const memory::File file_;
  SparseIndex index_;
  std::vector<std::string> header_;
  std::vector<TableField> fields_;
  std::vector<Target> targets_;
  Bytes window_bytes_ = 0;
  Bytes category_bytes_ = 0;
  int64_t first_row_ = 1;  // the row of the file that is element 0
};

class CsvReader final : public TableReader {
 public:
  explicit CsvReader(const CsvTable& table)
      : table_(table), walk_(table.file_, table.path_, table.options_.syntax, table.window_bytes_) {}

  void read(int64_t element, std::span<std::byte* const> into) override {
    const SparseIndex::Entry entry = table_.index_.before(element);
    if (next_ < entry.element || next_ > element) {
      next_ = entry.element;
      walk_.seek(entry.offset, table_.first_row_ + entry.element);
    }
    for (; next_ <= element; ++next_)
      if (!walk_.next()) walk_.refuse("", "the file ends; it became shorter since it was opened");
    if (walk_.fields().size() != table_.header_.size()) walk_.refuse("", "the file changed since it was opened");
    for (const Target& target : table_.targets_) put(target, walk_.fields()[target.column], into[target.field]);
  }

 private:
  void put(const Target& target, std::string_view text, std::byte* field) const {
    if (target.type == CsvType::Float) {
      const float value = real(target, text);
      std::memcpy(field + target.place * 4, &value, sizeof value);
    } else {
      const int64_t value = target.type == CsvType::Integer ? whole(target, text) : category(target, text);
      std::memcpy(field + target.place * 8, &value, sizeof value);
    }
  }

  float real(const Target& target, std::string_view text) const {
    double value = 0;
    if (!parse_number(text, value)) {
      if (!trimmed(text).empty()) refuse(target, text, "is no number; give the column another type");
      value = missing(target);
    }
    if (target.is_label && std::isnan(value)) refuse(target, text, "is a label that is not a number (NaN)");
    if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max())
      refuse(target, text, "does not fit f32");
    return static_cast<float>(value);
  }

  int64_t whole(const Target& target, std::string_view text) const {
    int64_t value = 0;
    if (parse_number(text, value)) {
      if (target.is_label && !table_.bound_.allows(value))
        walk_.refuse(table_.shown(target), table_.bound_.refusal(value));
      return value;
    }
    if (!trimmed(text).empty()) refuse(target, text, "is no integer; give the column another type");
    return static_cast<int64_t>(missing(target));
  }

  int64_t category(const Target& target, std::string_view text) const {
    const int64_t number = target.categories.find(trimmed(text));
    if (number < 0) refuse(target, text, "was no category when the file was opened");
    return number;
  }

  double missing(const Target& target) const {
    if (target.is_label) walk_.refuse(table_.shown(target), "the label is empty");
    if (!table_.options_.missing)
      walk_.refuse(table_.shown(target), "the field is empty; say what stands for missing values");
    return *table_.options_.missing;
  }

  [[noreturn]] void refuse(const Target& target, std::string_view text, const char* what) const {
    walk_.refuse(table_.shown(target), fmt::format("'{}' {}", text.substr(0, 40), what));
  }

  const CsvTable& table_;
  CsvWalk walk_;
  int64_t next_ = -1;
};

std::unique_ptr<TableReader> CsvTable::open_reader() const { return std::make_unique<CsvReader>(*this); }

}  // namespace

std::unique_ptr<Table> open_csv(const std::string& path, const CsvOptions& options, const LabelBound& bound) {
  return std::make_unique<CsvTable>(path, options, bound);
}

}  // namespace plimsoll::input
