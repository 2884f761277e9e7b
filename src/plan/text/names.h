// Unique words for tasks and buffers in text: their names, or '@' and number where a name is shared.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan/text/words.h"

namespace plimsoll::plan {

class Names {
 public:
  void add(const std::string& name) {
    const auto id = static_cast<int32_t>(names_.size());
    names_.push_back(name);
    const auto [at, is_first] = ids_.emplace(name, id);
    if (!is_first) at->second = kShared;
  }

  std::string word(int32_t id) const {
    const bool is_unclear = ids_.at(names_[id]) == kShared || names_[id].starts_with('@');
    return is_unclear ? "@" + std::to_string(id) : quote(names_[id]);
  }

  // -1 when there is no such name.
  int32_t find(const std::string& word) const {
    if (!word.starts_with('@')) {
      const auto at = ids_.find(word);
      return at == ids_.end() || at->second == kShared ? -1 : at->second;
    }
    int32_t id = -1;
    const auto [end, status] = std::from_chars(word.data() + 1, word.data() + word.size(), id);
    const bool is_id = status == std::errc() && end == word.data() + word.size() && id >= 0;
    return is_id && id < static_cast<int32_t>(names_.size()) ? id : -1;
  }

 private:
  static constexpr int32_t kShared = -2;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
};

template <typename Things>
Names names_of(const Things& things) {
  Names names;
  for (const auto& thing : things) names.add(thing.name);
  return names;
}

}  // namespace plimsoll::plan
