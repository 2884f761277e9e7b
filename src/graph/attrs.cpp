#include "graph/attrs.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/shape.h"

namespace plimsoll::graph {

Attrs::Attrs(std::initializer_list<std::pair<std::string_view, Attr>> items) {
  for (const auto& [key, value] : items) set(key, value);
}

void Attrs::set(std::string_view key, Attr value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), key,
                                   [](const auto& item, std::string_view k) { return item.first < k; });
  if (at != items_.end() && at->first == key)
    at->second = std::move(value);
  else
    items_.emplace(at, std::string(key), std::move(value));
}

void Attrs::erase(std::string_view key) {
  std::erase_if(items_, [&](const auto& item) { return item.first == key; });
}

const Attr* Attrs::find(std::string_view key) const {
  for (const auto& [name, value] : items_)
    if (name == key) return &value;
  return nullptr;
}

template <class T>
const T* Attrs::get(std::string_view key, const char* kind) const {
  const Attr* attr = find(key);
  if (attr == nullptr) return nullptr;
  const T* value = std::get_if<T>(attr);
  if (value == nullptr) throw Error(fmt::format("attribute '{}' must be {}", key, kind));
  return value;
}

int64_t Attrs::i(std::string_view key, int64_t otherwise) const {
  const auto* value = get<int64_t>(key, "a whole number");
  return value ? *value : otherwise;
}

double Attrs::f(std::string_view key, double otherwise) const {
  const auto* value = get<double>(key, "a real number");
  return value ? *value : otherwise;
}

std::string_view Attrs::s(std::string_view key, std::string_view otherwise) const {
  const auto* value = get<std::string>(key, "a text");
  return value ? std::string_view(*value) : otherwise;
}

Shape Attrs::shape(std::string_view key, Shape otherwise) const {
  const auto* value = get<Shape>(key, "a shape");
  return value ? *value : otherwise;
}

Dims Attrs::dims(std::string_view key, Dims otherwise) const {
  const auto* value = get<Shape>(key, "a list of whole numbers");
  if (!value) return otherwise;
  Dims dims;
  for (const Dim dim : *value) dims.push_back(dim.fixed());
  return dims;
}

const std::vector<double>& Attrs::list(std::string_view key) const {
  static const std::vector<double> kNone;
  const auto* value = get<std::vector<double>>(key, "a list of numbers");
  return value ? *value : kNone;
}

namespace {

// Reals always show a point or an exponent, so that they read back as reals.
std::string real(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
}

std::string to_text(const Attr& attr) {
  if (const auto* i = std::get_if<int64_t>(&attr)) return std::to_string(*i);
  if (const auto* f = std::get_if<double>(&attr)) return real(*f);
  if (const auto* s = std::get_if<std::string>(&attr)) return '"' + *s + '"';
  if (const auto* shape = std::get_if<Shape>(&attr)) return to_string(*shape);
  std::string text = "(";
  for (const double value : std::get<std::vector<double>>(attr)) text += (text.size() > 1 ? "," : "") + real(value);
  return text + ")";
}

template <class T>
T number(std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) throw Error(fmt::format("'{}' is not a number", text));
  return value;
}

Attr parse_attr(std::string_view text) {
  if (text.empty()) throw Error("an attribute has no value");
  if (text.front() == '"') {
    if (text.size() < 2 || text.back() != '"') throw Error(fmt::format("text {} is not closed", text));
    return std::string(text.substr(1, text.size() - 2));
  }
  if (text.front() == '[') return parse_shape(text);
  if (text.front() == '(') {
    if (text.back() != ')') throw Error(fmt::format("list {} is not closed", text));
    std::vector<double> list;
    std::string_view rest = text.substr(1, text.size() - 2);
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      list.push_back(number<double>(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return list;
  }
  if (text.find_first_of(".eni") == std::string_view::npos) return number<int64_t>(text);
  return number<double>(text);
}

}  // namespace

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const auto& [key, value] : attrs.items()) text += (text.empty() ? "" : " ") + key + "=" + to_text(value);
  return text;
}

Attrs parse_attrs(std::string_view text) {
  Attrs attrs;
  while (true) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    if (text.empty()) return attrs;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) throw Error(fmt::format("'{}' is not key=value", text));
    const std::string_view key = text.substr(0, equals);
    text.remove_prefix(equals + 1);
    const size_t close = text.starts_with('"') ? text.find('"', 1) : std::string_view::npos;
    const size_t end = std::min(text.find(' ', close == std::string_view::npos ? 0 : close), text.size());
    attrs.set(key, parse_attr(text.substr(0, end)));
    text.remove_prefix(end);
  }
}

}  // namespace plimsoll::graph
