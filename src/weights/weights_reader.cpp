#include "weights/weights_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "base/random.h"

namespace plimsoll::weights {
namespace {

constexpr Bytes kLargestHeader = 100 * MiB;  // the format's own limit
constexpr size_t kMostNames = 65'536;        // whose hashes are held at once

constexpr std::array<std::pair<DType, std::string_view>, 8> kNames{{{DType::F32, "F32"},
                                                                    {DType::F16, "F16"},
                                                                    {DType::BF16, "BF16"},
                                                                    {DType::I32, "I32"},
                                                                    {DType::I64, "I64"},
                                                                    {DType::U8, "U8"},
                                                                    {DType::I8, "I8"},
                                                                    {DType::Bool, "BOOL"}}};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(fmt::format("'{}' is no weights file (safetensors): {}", path, why), ErrorKind::BadData);
}

void read_exactly(const memory::File& file, const std::string& path, Bytes offset, Bytes bytes, void* into) {
  const Bytes got = file.read_some(offset, bytes, into, path);
  if (got < bytes)
    throw Error(
        fmt::format("'{}' ends at byte {}, {} bytes too early: it is truncated", path, offset + got, bytes - got),
        ErrorKind::BadData);
}

// The characters of the header. What would make the parser's own buffers grow is refused or left out here: long texts
// and numbers, runs of white space.
class HeaderText {
 public:
  static constexpr Bytes kPieceBytes = 64 * KiB;

  HeaderText(const memory::File& file, const std::string& path, Bytes begin, Bytes end)
      : file_(file), path_(path), at_(begin), end_(end), piece_(std::make_unique<Piece>()) {
    advance();
  }

  bool has_ended() const { return has_ended_; }
  char current() const { return current_; }
  Bytes position() const { return at_ - static_cast<Bytes>(filled_ - next_); }

  void advance() {
    while (next_character()) {
      if (current_ == '\0') refuse(path_, fmt::format("there is a zero at byte {} of its header", position() - 1));
      const bool was_space = std::exchange(is_space_, false);
      if (in_text_) {
        expect_short();
        if (std::exchange(is_escaped_, false)) return;
        is_escaped_ = current_ == '\\';
        if (current_ == '"') end_token(false);
        return;
      }
      switch (current_) {
        case ' ':
        case '\t':
        case '\r':
        case '\n':
          end_token(false);
          is_space_ = true;
          if (was_space) continue;
          return;
        case '"':
          return end_token(true);
        case '{':
        case '}':
        case '[':
        case ']':
        case ',':
        case ':':
          return end_token(false);
        default:
          return expect_short();
      }
    }
  }

 private:
  using Piece = std::array<char, kPieceBytes>;

  bool next_character() {
    if (next_ == filled_) {
      filled_ = static_cast<size_t>(std::min<Bytes>(piece_->size(), end_ - at_));
      has_ended_ = filled_ == 0;
      if (has_ended_) return false;
      read_exactly(file_, path_, at_, static_cast<Bytes>(filled_), piece_->data());
      at_ += static_cast<Bytes>(filled_);
      next_ = 0;
    }
    current_ = (*piece_)[next_++];
    return true;
  }

  void end_token(bool text_begins) {
    in_text_ = text_begins;
    token_bytes_ = 0;
  }

  void expect_short() {
    if (++token_bytes_ > WeightsReader::kLongestText)
      refuse(path_, fmt::format("its header has a text or number of more than {} before byte {}",
                                format_bytes(WeightsReader::kLongestText), position()));
  }

  const memory::File& file_;
  const std::string& path_;
  Bytes at_;
  const Bytes end_;
  const std::unique_ptr<Piece> piece_;
  size_t next_ = 0, filled_ = 0;
  char current_ = 0;
  bool has_ended_ = false;
  bool in_text_ = false, is_escaped_ = false, is_space_ = false;
  Bytes token_bytes_ = 0;
};

class HeaderIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit HeaderIterator(HeaderText* text = nullptr) : text_(text) {}
  char operator*() const { return text_->current(); }
  HeaderIterator& operator++() {
    text_->advance();
    return *this;
  }
  friend bool operator==(const HeaderIterator& a, const HeaderIterator& b) { return a.is_end() == b.is_end(); }

 private:
  bool is_end() const { return text_ == nullptr || text_->has_ended(); }
  HeaderText* text_;
};

// Finds a name that stands twice. Holds the hashes of one share of the names: share `share` of `shares`.
class SeenNames {
 public:
  SeenNames(uint64_t share, uint64_t shares) : share_(share), shares_(shares) {}

  void add(std::string_view name) {
    const uint64_t hash = hash_text(name);
    ++all_;
    if (hash % shares_ != share_) return;
    if (hashes_.size() == kMostNames) is_full_ = true;
    if (!is_full_) hashes_.push_back(hash);
  }

  int64_t all() const { return all_; }
  bool is_full() const { return is_full_; }
  bool has_twins() {
    std::sort(hashes_.begin(), hashes_.end());
    return std::adjacent_find(hashes_.begin(), hashes_.end()) != hashes_.end();
  }

 private:
  const uint64_t share_, shares_;
  int64_t all_ = 0;
  bool is_full_ = false;
  std::vector<uint64_t> hashes_;
};

// Whether tensors in any order cover the data without gap or overlap, in constant memory. In an exact cover each begin
// is the end of another tensor, except byte 0 and the end of the data, so that sums of hashed ends and begins differ by
// those two alone. The converse holds unless hashes collide: a range leads forward only, so balanced ends form one
// chain.
class Cover {
 public:
  void add(const StoredTensor& tensor, Bytes begin) {
    if (begin != last_end_ && tensor.bytes > 0 && out_of_line_.empty()) out_of_line_ = tensor.name;
    if (tensor.bytes > 0) last_end_ = begin + tensor.bytes;
    largest_end_ = std::max(largest_end_, begin + tensor.bytes);
    ends_less_begins_ += mix_bits(static_cast<uint64_t>(begin + tensor.bytes)) - mix_bits(static_cast<uint64_t>(begin));
    uncovered_ -= tensor.bytes;
  }

  // What is wrong, as text; empty when nothing is.
  std::string fault(Bytes data_bytes) const {
    if (largest_end_ < data_bytes) return fmt::format("{} bytes follow its last tensor", data_bytes - largest_end_);
    if (ends_less_begins_ == mix_bits(static_cast<uint64_t>(data_bytes)) - mix_bits(0)) return "";
    return fmt::format("its tensors {}; the first out of line is '{}'",
                       uncovered_ + data_bytes > 0 ? "leave bytes between them that belong to none" : "overlap",
                       out_of_line_);
  }

 private:
  uint64_t ends_less_begins_ = 0;
  Bytes last_end_ = 0, largest_end_ = 0;
  Bytes uncovered_ = 0;  // less the length of the data
  std::string out_of_line_;
};

// Receives the events of the JSON parser. Keeps only the current entry.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(const std::string& path, Bytes data_begin, Bytes data_bytes, SeenNames& names,
               const std::function<void(const StoredTensor&)>& visit)
      : path_(path), data_begin_(data_begin), data_bytes_(data_bytes), names_(names), visit_(visit) {}

  int64_t steps() const { return steps_; }
  const std::string& data_names() const { return data_names_; }
  int64_t tensors() const { return tensors_; }
  const Cover& cover() const { return cover_; }

  bool start_object(std::size_t) override {
    if (place_ == Place::Outside)
      place_ = Place::Top;
    else if (place_ == Place::Top)
      place_ = key_ == kMetadata ? Place::Metadata : Place::Entry;
    else
      damaged();
    return true;
  }

  bool key(string_t& text) override {
    switch (place_) {
      case Place::Top:
        names_.add(text);
        key_ = text;
        entry_ = {text, DType::F32, {}, 0, 0};
        has_dtype_ = has_shape_ = false;
        offset_count_ = -1;
        break;
      case Place::Metadata:
        names_.add(std::string(kMetadata) + '/' + text);
        is_steps_ = text == kSteps;
        is_data_names_ = text == kDataNames;
        break;
      default:
        field_ = text == "dtype"          ? Field::Type
                 : text == "shape"        ? Field::Shape
                 : text == "data_offsets" ? Field::Offsets
                                          : Field::Unknown;
    }
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::Metadata) {
      if (is_steps_) read_steps(text);
      if (is_data_names_) data_names_ = text;
      return true;
    }
    if (place_ != Place::Entry || field_ != Field::Type || has_dtype_) damaged();
    const auto* known = std::find_if(kNames.begin(), kNames.end(), [&](const auto& n) { return n.second == text; });
    if (known == kNames.end())
      refuse(path_, fmt::format("tensor '{}' has the unknown type {}", shown(entry_.name), shown(text)));
    entry_.dtype = known->first;
    return has_dtype_ = true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::Entry || (field_ != Field::Shape && field_ != Field::Offsets)) damaged();
    if (field_ == Field::Shape ? has_shape_ : offset_count_ >= 0) damaged();
    if (field_ == Field::Shape)
      has_shape_ = true;
    else
      offset_count_ = 0;
    place_ = Place::List;
    return true;
  }

  bool end_array() override {
    place_ = Place::Entry;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Entry) finish_entry();
    place_ = place_ == Place::Top ? Place::Outside : Place::Top;
    return true;
  }

  bool number_integer(number_integer_t number) override {
    if (place_ != Place::List) damaged();
    if (field_ == Field::Shape) {
      if (number < 0 || entry_.dims.rank() == kMaxRank)
        refuse(path_,
               fmt::format("tensor '{}' has a negative size or more than {} dimensions", shown(entry_.name), kMaxRank));
      entry_.dims.push_back(number);
    } else {
      if (offset_count_ == 2) damaged();
      offsets_[static_cast<size_t>(offset_count_++)] = number;
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()))
      refuse(path_, fmt::format("a size or offset of tensor '{}' is over 2^63", shown(entry_.name)));
    return number_integer(static_cast<number_integer_t>(number));
  }

  bool null() override { damaged(); }
  bool boolean(bool) override { damaged(); }
  bool number_float(number_float_t, const string_t&) override { damaged(); }
  bool binary(binary_t&) override { damaged(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  enum class Place { Outside, Top, Metadata, Entry, List };
  enum class Field { Unknown, Type, Shape, Offsets };

  // Names come from the file and may fill screens.
  static std::string_view shown(std::string_view name) { return name.substr(0, 200); }

  [[noreturn]] void damaged() const {
    if (place_ == Place::Outside) refuse(path_, "its header is not a JSON object");
    refuse(path_, fmt::format("the entry of tensor '{}' is damaged", shown(key_)));
  }

  void read_steps(const std::string& digits) {
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), steps_);
    if (status != std::errc() || end != digits.data() + digits.size() || steps_ < 0)
      refuse(path_, "its number of training steps is damaged");
  }

  void finish_entry() {
    if (!has_dtype_ || !has_shape_ || offset_count_ != 2) damaged();
    Bytes bytes = size_of(entry_.dtype);
    bool overflows = false;
    for (const int64_t size : entry_.dims) overflows = __builtin_mul_overflow(bytes, size, &bytes) || overflows;
    const auto [begin, end] = offsets_;
    if (overflows || begin < 0 || end < begin || end - begin != bytes || end > data_bytes_)
      refuse(path_, fmt::format("tensor '{}' {} does not lie within the file ({} bytes): it is truncated or damaged",
                                shown(entry_.name), to_string(entry_.dims), data_begin_ + data_bytes_));
    if (begin % size_of(entry_.dtype) != 0)
      refuse(path_, fmt::format("tensor '{}' starts at byte {}, which is no multiple of its elements' {} bytes",
                                shown(entry_.name), begin, size_of(entry_.dtype)));
    entry_.offset = data_begin_ + begin;
    entry_.bytes = bytes;
    cover_.add(entry_, begin);
    ++tensors_;
    if (visit_) visit_(entry_);
  }

  const std::string& path_;
  const Bytes data_begin_, data_bytes_;
  SeenNames& names_;
  const std::function<void(const StoredTensor&)>& visit_;
  Place place_ = Place::Outside;
  Field field_ = Field::Unknown;
  std::string key_;
  StoredTensor entry_;
  std::array<int64_t, 2> offsets_{};
  int offset_count_ = -1;  // -1: none were given
  bool has_dtype_ = false, has_shape_ = false, is_steps_ = false, is_data_names_ = false;
  std::string data_names_;
  Cover cover_;
  int64_t tensors_ = 0, steps_ = 0;
};

// One pass over a header whose bytes are already known to lie within the file.
struct Pass {
  const memory::File& file;
  const std::string& path;
  Bytes data_begin, data_bytes;

  HeaderEvents run(SeenNames& names, const std::function<void(const StoredTensor&)>& visit = {}) const {
    HeaderText text(file, path, 8, data_begin);
    HeaderEvents events(path, data_begin, data_bytes, names, visit);
    if (text.has_ended() || text.current() != '{') refuse(path, "its header is not a JSON object");
    if (!nlohmann::json::sax_parse(HeaderIterator(&text), HeaderIterator(), &events))
      refuse(path, fmt::format("its header is not a JSON object: it is damaged before byte {}", text.position()));
    return events;
  }
};

}  // namespace

std::string_view stored_name(DType dtype) {
  for (const auto& [type, name] : kNames)
    if (type == dtype) return name;
  return "?";
}

WeightsReader::WeightsReader(const std::string& path)
    : path_(path), file_(memory::File::open(path)), size_(file_.size()) {
  uint64_t header_bytes = 0;
  if (size_ < 8) refuse(path, fmt::format("it has only {} bytes", size_));
  read(0, &header_bytes, 8);
  if (header_bytes > static_cast<uint64_t>(kLargestHeader) || static_cast<Bytes>(header_bytes) > size_ - 8)
    refuse(path, fmt::format("its header would be {} bytes long but the file has {}", header_bytes, size_));
  data_begin_ = 8 + static_cast<Bytes>(header_bytes);

  const Pass pass{file_, path_, data_begin_, data_bytes()};
  const auto expect_no_twins = [&](SeenNames& names) {
    if (names.has_twins()) refuse(path_, "a name stands in its header twice");
  };
  SeenNames names(0, 1);
  const HeaderEvents found = pass.run(names);
  tensors_ = found.tensors();
  steps_ = found.steps();
  data_names_ = found.data_names();
  if (const std::string fault = found.cover().fault(data_bytes()); !fault.empty()) refuse(path_, fault);
  expect_no_twins(names);
  if (!names.is_full()) return;
  // More names than are held at once: a pass for each share of them, half of what would fit.
  const uint64_t shares = static_cast<uint64_t>(names.all()) / (kMostNames / 2) + 1;
  for (uint64_t share = 0; share < shares; ++share) {
    SeenNames some(share, shares);
    pass.run(some);
    expect_no_twins(some);
    if (some.is_full()) refuse(path_, "the hashes of its names collide");
  }
}

Bytes WeightsReader::bytes_to_read(const std::string& path) {
  // Buffers of texts grow by doubling, and a name is held three times: by the parser, as a key, and in the tensor.
  constexpr Bytes kTimes = 8, kOthers = 16 * KiB;
  const memory::File file = memory::File::open(path);
  uint64_t header_bytes = 0;
  if (file.read_some(0, 8, &header_bytes, path) < 8 || header_bytes > static_cast<uint64_t>(kBytes)) return kBytes;
  return std::min(kBytes, HeaderText::kPieceBytes + kOthers + kTimes * static_cast<Bytes>(header_bytes));
}

void WeightsReader::for_each(const std::function<void(const StoredTensor&)>& visit) const {
  SeenNames names(1, 1);  // holds none: they were checked before
  Pass{file_, path_, data_begin_, data_bytes()}.run(names, visit);
}

void WeightsReader::read(Bytes offset, void* into, Bytes bytes) const {
  read_exactly(file_, path_, offset, bytes, into);
}

}  // namespace plimsoll::weights
