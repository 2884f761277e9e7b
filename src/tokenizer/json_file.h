// Reads JSON files piece by piece: what is large in them is never held as JSON.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <plimsoll/types.h>

namespace plimsoll::tokenizer {

using Json = nlohmann::json;

// Called with the key of a member (empty for an element of an array) and its value.
using VisitMember = std::function<void(const std::string& key, Json& value)>;

// A list or an object of the file whose members are visited one by one and are not in what read_json returns.
struct JsonStream {
  std::string place;  // keys with dots between them: "model.vocab"; empty: the file itself
  VisitMember visit;
};

constexpr Bytes kLongestJson = 512 * MiB;

// Throws Error(BadData) that names the file and the place of the damage.
Json read_json(const std::string& path, const std::vector<JsonStream>& streams);

// A list of texts in one block of memory.
class Texts {
 public:
  void add(std::string_view text) {
    text_.append(text);
    ends_.push_back(text_.size());
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

}  // namespace plimsoll::tokenizer
