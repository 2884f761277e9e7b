#include "tokenizer/json_file.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::tokenizer {
namespace {

constexpr size_t kDeepest = 32;

// Builds values from events. Members of a stream are built one by one and given away.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  Builder(const std::string& path, const std::vector<JsonStream>& streams) : path_(path), streams_(streams) {}

  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(number_integer_t value) { return put(value); }
  bool number_unsigned(number_unsigned_t value) { return put(value); }
  bool number_float(number_float_t value, const string_t&) { return put(value); }
  bool string(string_t& value) { return put(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(string_t& key) {
    key_ = std::move(key);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) {
    const std::string what = e.what();  // "[json.exception.parse_error.101] parse error at line 2, column 4: ..."
    const size_t code = what.find("] ");
    throw Error(
        fmt::format("{}: at byte {}: {}", path_, at, what.substr(code == std::string::npos ? 0 : code + 2, 200)),
        ErrorKind::BadData);
  }

 private:
  struct Level {
    Json* value;  // null: a stream
    std::string key;
    const JsonStream* stream = nullptr;
  };

  bool put(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.stream != nullptr) {
      level.stream->visit(key_, value);
      key_.clear();
    } else {
      place_in(level, std::move(value));
    }
    return true;
  }

  Json* place_in(Level& level, Json value) {
    if (level.value->is_array()) return &level.value->emplace_back(std::move(value));
    return &((*level.value)[key_] = std::move(value));
  }

  bool open(Json container) {
    if (levels_.size() == kDeepest)
      throw Error(fmt::format("{}: its values are nested more than {} deep", path_, kDeepest), ErrorKind::BadData);
    if (levels_.empty()) {
      root_ = std::move(container);
      levels_.push_back({&root_, {}, find_stream("")});
    } else if (levels_.back().stream != nullptr) {
      member_ = std::move(container);
      levels_.push_back({&member_, std::exchange(key_, {})});
    } else {
      const std::string place = levels_.back().key.empty() ? key_ : levels_.back().key + "." + key_;
      Json* const value = place_in(levels_.back(), std::move(container));
      levels_.push_back({value, place, find_stream(place)});
    }
    return true;
  }

  bool close() {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (!levels_.empty() && levels_.back().stream != nullptr) levels_.back().stream->visit(level.key, member_);
    return true;
  }

  const JsonStream* find_stream(const std::string& place) const {
    for (const JsonStream& stream : streams_)
      if (stream.place == place) return &stream;
    return nullptr;
  }

  const std::string& path_;
  const std::vector<JsonStream>& streams_;
  Json root_, member_;
  std::string key_;
  std::vector<Level> levels_;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Json read_json(const std::string& path, const std::vector<JsonStream>& streams) {
  const memory::File file = memory::File::open(path);
  if (file.size() > kLongestJson)
    throw Error(fmt::format("{}: has {}; files of tokenizers have at most {}", path, format_bytes(file.size()),
                            format_bytes(kLongestJson)),
                ErrorKind::BadData);
  const int copy = ::dup(file.descriptor());
  const std::unique_ptr<std::FILE, CloseFile> stream(copy < 0 ? nullptr : ::fdopen(copy, "rb"));
  if (stream == nullptr) {
    if (copy >= 0) ::close(copy);
    throw Error(path + ": can't be read", ErrorKind::BadData);
  }
  Builder builder(path, streams);
  try {
    Json::sax_parse(stream.get(), &builder);
  } catch (const Json::exception& e) {
    throw Error(fmt::format("{}: {}", path, e.what()), ErrorKind::BadData);
  }
  return builder.take();
}

}  // namespace plimsoll::tokenizer
