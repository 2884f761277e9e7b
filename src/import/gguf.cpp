#include "import/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::import {
namespace {

constexpr Bytes kLongestName = 4096;
constexpr Bytes kLongestText = 16 * MiB;  // of a fact that is read as a whole
constexpr uint64_t kMostFacts = 65'536, kMostTensors = 1'048'576;
constexpr int64_t kMostDims = 8;
constexpr Bytes kWindow = 64 * KiB;

Bytes size_of_kind(GgufKind kind) {
  switch (kind) {
    case GgufKind::U8:
    case GgufKind::I8:
    case GgufKind::Bool:
      return 1;
    case GgufKind::U16:
    case GgufKind::I16:
      return 2;
    case GgufKind::U32:
    case GgufKind::I32:
    case GgufKind::F32:
      return 4;
    case GgufKind::U64:
    case GgufKind::I64:
    case GgufKind::F64:
      return 8;
    case GgufKind::Text:
    case GgufKind::Array:
      break;
  }
  return 0;
}

bool is_whole(GgufKind kind) {
  return size_of_kind(kind) > 0 && kind != GgufKind::F32 && kind != GgufKind::F64 && kind != GgufKind::Bool;
}

template <class Number>
Number number_at(const std::byte* place) {
  Number number;
  std::memcpy(&number, place, sizeof number);
  return number;
}

int64_t whole_at(const std::byte* place, GgufKind kind) {
  switch (kind) {
    case GgufKind::U8:
    case GgufKind::Bool:
      return number_at<uint8_t>(place);
    case GgufKind::I8:
      return number_at<int8_t>(place);
    case GgufKind::U16:
      return number_at<uint16_t>(place);
    case GgufKind::I16:
      return number_at<int16_t>(place);
    case GgufKind::U32:
      return number_at<uint32_t>(place);
    case GgufKind::I32:
      return number_at<int32_t>(place);
    default:
      return number_at<int64_t>(place);  // of u64, those past the largest become negative, which nothing accepts
  }
}

}  // namespace

// Reads forward through a window of fixed size; every length is checked against the file before it is used.
class GgufFile::Cursor {
 public:
  Cursor(const memory::File& file, const std::string& path, Bytes size, Bytes at = 0)
      : file_(file), path_(path), size_(size), at_(at), window_(static_cast<size_t>(kWindow)) {}

  Bytes at() const { return at_; }
  Bytes left() const { return size_ - at_; }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(fmt::format("{}: at byte {}: {}", path_, at_, what), ErrorKind::BadData);
  }

  void skip(Bytes bytes) {
    if (bytes < 0 || bytes > left()) refuse("the header ends after the file: the file was cut off or is damaged");
    at_ += bytes;
  }
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  // Valid until the next call.
  std::string_view text(Bytes longest) {
    const auto bytes = number<uint64_t>();
    if (bytes > static_cast<uint64_t>(longest) || static_cast<Bytes>(bytes) > left())
      refuse(fmt::format("a text of {} bytes, where at most {} can be", bytes, std::min(longest, left())));
    if (static_cast<Bytes>(bytes) > kWindow) {
      long_text_.resize(bytes);
      if (file_.read_some(at_, static_cast<Bytes>(bytes), long_text_.data(), path_) != static_cast<Bytes>(bytes))
        refuse("the file ends inside a text");
      at_ += static_cast<Bytes>(bytes);
      return long_text_;
    }
    return {reinterpret_cast<const char*>(take(static_cast<Bytes>(bytes))), static_cast<size_t>(bytes)};
  }
  const std::byte* take(Bytes bytes) {
    if (bytes > left()) refuse("the header ends after the file: the file was cut off or is damaged");
    if (at_ < begin_ || at_ + bytes > begin_ + filled_) {
      begin_ = at_;
      filled_ = file_.read_some(at_, std::min(kWindow, left()), window_.data(), path_);
      if (filled_ < bytes) refuse("the file ends inside its header");
    }
    const std::byte* const place = window_.data() + (at_ - begin_);
    at_ += bytes;
    return place;
  }

 private:
  const memory::File& file_;
  const std::string& path_;
  const Bytes size_;
  Bytes at_, begin_ = 0, filled_ = 0;
  std::vector<std::byte> window_;
  std::string long_text_;
};

GgufFile::GgufFile(const std::string& path) : path_(path), file_(memory::File::open(path)), size_(file_.size()) {
  Cursor cursor(file_, path_, size_);
  if (size_ < 24 || std::memcmp(cursor.take(4), "GGUF", 4) != 0)
    throw Error(path + ": is no GGUF file: it does not begin with GGUF", ErrorKind::BadData);
  const auto version = cursor.number<uint32_t>();
  if (version != 2 && version != 3) cursor.refuse(fmt::format("version {} of GGUF; 2 and 3 are read", version));
  const auto tensors = cursor.number<uint64_t>(), facts = cursor.number<uint64_t>();
  // The shortest fact has 13 bytes, the shortest tensor 32.
  if (facts > kMostFacts || static_cast<Bytes>(facts) > cursor.left() / 13)
    cursor.refuse(fmt::format("{} facts in a file of {} bytes", facts, size_));
  if (tensors > kMostTensors || static_cast<Bytes>(tensors) > cursor.left() / 32)
    cursor.refuse(fmt::format("{} tensors in a file of {} bytes", tensors, size_));
  read_facts(cursor, facts);
  read_tensors(cursor, tensors);
  check_places();
}

void GgufFile::read_facts(Cursor& cursor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    Fact fact;
    fact.key = cursor.text(kLongestName);
    const auto kind_at = [&] {
      const auto kind = cursor.number<uint32_t>();
      if (kind > static_cast<uint32_t>(GgufKind::F64))
        cursor.refuse(fmt::format("a fact of the unknown kind {}", kind));
      return static_cast<GgufKind>(kind);
    };
    fact.kind = fact.element = kind_at();
    fact.count = 1;
    if (fact.kind == GgufKind::Array) {
      fact.element = kind_at();
      if (fact.element == GgufKind::Array) cursor.refuse(fmt::format("'{}' is a list of lists", fact.key));
      const auto elements = cursor.number<uint64_t>();
      const Bytes least = fact.element == GgufKind::Text ? 8 : size_of_kind(fact.element);
      if (elements > static_cast<uint64_t>(cursor.left() / least))
        cursor.refuse(fmt::format("'{}' has {} elements, and {} bytes are left", fact.key, elements, cursor.left()));
      fact.count = static_cast<int64_t>(elements);
    }
    fact.offset = cursor.at();
    if (fact.element == GgufKind::Text)
      for (int64_t element = 0; element < fact.count; ++element) {
        const auto bytes = cursor.number<uint64_t>();
        if (bytes > static_cast<uint64_t>(cursor.left())) cursor.refuse(fmt::format("a text of {} bytes", bytes));
        cursor.skip(static_cast<Bytes>(bytes));
      }
    else
      cursor.skip(fact.count * size_of_kind(fact.element));
    facts_.push_back(std::move(fact));
  }
  std::sort(facts_.begin(), facts_.end(), [](const Fact& a, const Fact& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(facts_.begin(), facts_.end(), [](const Fact& a, const Fact& b) { return a.key == b.key; });
  if (twice != facts_.end()) cursor.refuse(fmt::format("the fact '{}' is there twice", twice->key));
}

void GgufFile::read_tensors(Cursor& cursor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor;
    tensor.name = cursor.text(kLongestName);
    const auto dims = cursor.number<uint32_t>();
    if (dims == 0 || dims > kMostDims) cursor.refuse(fmt::format("'{}' has {} dimensions", tensor.name, dims));
    tensor.elements = 1;
    for (uint32_t d = 0; d < dims; ++d) {
      const auto size = cursor.number<uint64_t>();
      // Each number takes some bits of the file at least.
      if (size == 0 || size > static_cast<uint64_t>(8 * size_ / tensor.elements))
        cursor.refuse(fmt::format("'{}' has more numbers than the file has room for", tensor.name));
      tensor.elements *= static_cast<int64_t>(size);
      tensor.dims.insert(tensor.dims.begin(), static_cast<int64_t>(size));
    }
    const auto type = cursor.number<uint32_t>();
    const std::optional<BlockFacts> facts = block_facts(type);
    if (!facts) {
      const std::string_view name = name_of_unread(type);
      cursor.refuse(
          fmt::format("'{}' has the type {}, which is not read; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                      "Q4_K, Q5_K and Q6_K are",
                      tensor.name, name.empty() ? std::to_string(type) : std::string(name)));
    }
    tensor.type = static_cast<BlockType>(type);
    if (tensor.dims.back() % facts->elements != 0)
      cursor.refuse(fmt::format("'{}' has rows of {}, which are no whole blocks of {}", tensor.name, tensor.dims.back(),
                                facts->name));
    tensor.bytes = tensor.elements / facts->elements * facts->bytes;
    const auto offset = cursor.number<uint64_t>();
    if (offset > static_cast<uint64_t>(size_)) cursor.refuse(fmt::format("'{}' begins after the file", tensor.name));
    tensor.offset = static_cast<Bytes>(offset);
    tensors_.push_back(std::move(tensor));
  }
  const int64_t alignment = whole("general.alignment", 32);
  if (alignment < 1 || alignment > MiB) cursor.refuse(fmt::format("an alignment of {}", alignment));
  const Bytes begin = round_up(cursor.at(), alignment);
  for (GgufTensor& tensor : tensors_) {
    if (tensor.offset % alignment != 0 || tensor.offset > size_ - begin || tensor.bytes > size_ - begin - tensor.offset)
      throw Error(fmt::format("{}: '{}' lies at byte {} with {} bytes, and the file has {}", path_, tensor.name,
                              begin + tensor.offset, tensor.bytes, size_),
                  ErrorKind::BadData);
    tensor.offset += begin;
  }
}

void GgufFile::check_places() const {
  std::vector<const GgufTensor*> sorted;
  for (const GgufTensor& tensor : tensors_) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1]->offset + sorted[i - 1]->bytes > sorted[i]->offset)
      throw Error(fmt::format("{}: '{}' and '{}' overlap", path_, sorted[i - 1]->name, sorted[i]->name),
                  ErrorKind::BadData);
  std::sort(sorted.begin(), sorted.end(), [](const GgufTensor* a, const GgufTensor* b) { return a->name < b->name; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1]->name == sorted[i]->name)
      throw Error(fmt::format("{}: two tensors are called '{}'", path_, sorted[i]->name), ErrorKind::BadData);
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  for (const GgufTensor& tensor : tensors_)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

const GgufFile::Fact* GgufFile::find_fact(std::string_view key) const {
  const auto found = std::lower_bound(facts_.begin(), facts_.end(), key,
                                      [](const Fact& fact, std::string_view wanted) { return fact.key < wanted; });
  return found != facts_.end() && found->key == key ? &*found : nullptr;
}

const GgufFile::Fact* GgufFile::find_list(std::string_view key) const {
  const Fact* const fact = find_fact(key);
  if (fact != nullptr && fact->kind != GgufKind::Array)
    throw Error(fmt::format("{}: '{}' is no list", path_, key), ErrorKind::BadData);
  return fact;
}

std::string GgufFile::text(std::string_view key, const std::string& fallback) const {
  const Fact* const fact = find_fact(key);
  if (fact == nullptr) return fallback;
  if (fact->kind != GgufKind::Text) throw Error(fmt::format("{}: '{}' is no text", path_, key), ErrorKind::BadData);
  return std::string(Cursor(file_, path_, size_, fact->offset).text(kLongestText));
}

int64_t GgufFile::whole(std::string_view key, int64_t fallback) const {
  const Fact* const fact = find_fact(key);
  if (fact == nullptr) return fallback;
  if (!is_whole(fact->kind)) throw Error(fmt::format("{}: '{}' is no whole number", path_, key), ErrorKind::BadData);
  Cursor cursor(file_, path_, size_, fact->offset);
  return whole_at(cursor.take(size_of_kind(fact->kind)), fact->kind);
}

double GgufFile::number(std::string_view key, double fallback) const {
  const Fact* const fact = find_fact(key);
  if (fact == nullptr) return fallback;
  Cursor cursor(file_, path_, size_, fact->offset);
  if (fact->kind == GgufKind::F32) return cursor.number<float>();
  if (fact->kind == GgufKind::F64) return cursor.number<double>();
  return static_cast<double>(whole(key, 0));
}

bool GgufFile::flag(std::string_view key, bool fallback) const {
  const Fact* const fact = find_fact(key);
  if (fact == nullptr) return fallback;
  if (fact->kind != GgufKind::Bool)
    throw Error(fmt::format("{}: '{}' is neither true nor false", path_, key), ErrorKind::BadData);
  return Cursor(file_, path_, size_, fact->offset).number<uint8_t>() != 0;
}

int64_t GgufFile::count(std::string_view key) const {
  const Fact* const fact = find_list(key);
  return fact == nullptr ? 0 : fact->count;
}

void GgufFile::for_each_text(std::string_view key, const std::function<void(std::string_view)>& visit) const {
  const Fact* const fact = find_list(key);
  if (fact == nullptr) return;
  if (fact->element != GgufKind::Text)
    throw Error(fmt::format("{}: '{}' is no list of texts", path_, key), ErrorKind::BadData);
  Cursor cursor(file_, path_, size_, fact->offset);
  for (int64_t i = 0; i < fact->count; ++i) visit(cursor.text(kLongestText));
}

std::vector<int64_t> GgufFile::wholes(std::string_view key) const {
  const Fact* const fact = find_list(key);
  std::vector<int64_t> values;
  if (fact == nullptr) return values;
  if (!is_whole(fact->element) && fact->element != GgufKind::Bool)
    throw Error(fmt::format("{}: '{}' is no list of whole numbers", path_, key), ErrorKind::BadData);
  Cursor cursor(file_, path_, size_, fact->offset);
  for (int64_t i = 0; i < fact->count; ++i)
    values.push_back(whole_at(cursor.take(size_of_kind(fact->element)), fact->element));
  return values;
}

std::vector<float> GgufFile::numbers(std::string_view key) const {
  const Fact* const fact = find_list(key);
  std::vector<float> values;
  if (fact == nullptr) return values;
  if (fact->element != GgufKind::F32)
    throw Error(fmt::format("{}: '{}' is no list of numbers (f32)", path_, key), ErrorKind::BadData);
  Cursor cursor(file_, path_, size_, fact->offset);
  for (int64_t i = 0; i < fact->count; ++i) values.push_back(cursor.number<float>());
  return values;
}

void GgufFile::read(const GgufTensor& tensor, int64_t first, int64_t count, float* into) const {
  const BlockFacts facts = *block_facts(static_cast<uint32_t>(tensor.type));
  if (first < 0 || count < 0 || first > tensor.elements || count > tensor.elements - first ||
      first % facts.elements != 0 || count % facts.elements != 0)
    throw Error(fmt::format("{}: elements {} to {} of '{}' are no blocks of {}", path_, first, first + count,
                            tensor.name, facts.name));
  std::vector<std::byte> window(static_cast<size_t>(kWindow));
  const int64_t at_once = kWindow / facts.bytes;
  for (int64_t block = first / facts.elements, end = (first + count) / facts.elements; block < end;) {
    const int64_t blocks = std::min(at_once, end - block);
    const Bytes bytes = blocks * facts.bytes;
    if (file_.read_some(tensor.offset + block * facts.bytes, bytes, window.data(), path_) != bytes)
      throw Error(fmt::format("{}: ends inside '{}'", path_, tensor.name), ErrorKind::BadData);
    unpack_blocks(tensor.type, window.data(), blocks, into);
    into += blocks * facts.elements;
    block += blocks;
  }
}

Bytes GgufFile::bytes() const {
  Bytes bytes =
      static_cast<Bytes>(sizeof *this + facts_.capacity() * sizeof(Fact) + tensors_.capacity() * sizeof(GgufTensor));
  for (const Fact& fact : facts_) bytes += static_cast<Bytes>(fact.key.capacity());
  for (const GgufTensor& tensor : tensors_)
    bytes += static_cast<Bytes>(tensor.name.capacity() + tensor.dims.capacity() * sizeof(int64_t));
  return bytes;
}

}  // namespace plimsoll::import
