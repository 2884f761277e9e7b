// The settings of a node (strides, axis, rate ...): a short sorted list of named values with a text form.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll::graph {

using Attr = std::variant<int64_t, double, std::string, Shape, std::vector<double>>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string_view, Attr>> items);

  void set(std::string_view key, Attr value);
  void erase(std::string_view key);
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Each returns `otherwise` when the key is absent and throws Error when the value is of another kind.
  int64_t i(std::string_view key, int64_t otherwise = 0) const;
  double f(std::string_view key, double otherwise = 0) const;
  std::string_view s(std::string_view key, std::string_view otherwise = "") const;
  Shape shape(std::string_view key, Shape otherwise = {}) const;  // shapes, and lists of whole numbers >= 0
  Dims dims(std::string_view key, Dims otherwise = {}) const;     // the same, without a batch dimension
  const std::vector<double>& list(std::string_view key) const;    // empty when absent

  bool empty() const { return items_.empty(); }
  const std::vector<std::pair<std::string, Attr>>& items() const { return items_; }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const Attr* find(std::string_view key) const;
  template <class T>
  const T* get(std::string_view key, const char* kind) const;
  std::vector<std::pair<std::string, Attr>> items_;  // sorted by key
};

std::string to_string(const Attrs& attrs);  // "axis=1 eps=1e-05 pads=[1,1,1,1] mode=\"linear\""
Attrs parse_attrs(std::string_view text);   // the inverse; throws Error

}  // namespace plimsoll::graph
