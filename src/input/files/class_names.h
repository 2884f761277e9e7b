// Names of classes by their numbers, found by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::input {

class ClassNames {
 public:
  ClassNames() = default;
  explicit ClassNames(std::vector<std::string> names);  // their numbers are their places
  const std::vector<std::string>& names() const { return names_; }
  bool is_empty() const { return names_.empty(); }
  int64_t find(std::string_view name) const;  // -1: there is none of that name

 private:
  std::vector<std::string> names_;
  std::vector<uint32_t> by_name_;
};

// The first of them, for messages: "cat, dog, ...".
std::string shown_names(const std::vector<std::string>& names);

}  // namespace plimsoll::input
