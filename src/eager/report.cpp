#include "eager/report.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::eager {
namespace {

constexpr size_t kShown = 8;

std::vector<const EagerValue*> largest(const std::vector<EagerValue*>& values) {
  std::vector<const EagerValue*> list;
  for (const EagerValue* value : values)
    if (value->state == EagerValue::State::InMemory) list.push_back(value);
  std::stable_sort(list.begin(), list.end(),
                   [](const EagerValue* a, const EagerValue* b) { return a->bytes > b->bytes; });
  if (list.size() > kShown) list.resize(kShown);
  return list;
}

std::string_view kind_of(const EagerValue& value) {
  if (value.stored != nullptr) return value.stored->name;
  if (value.op != nullptr) return value.op->name;
  return value.origin == EagerValue::Origin::Filled ? "filled" : "given";
}

std::string place_of(const EagerValue& value) {
  std::string_view file = value.made_at.file_name();
  if (file.empty()) return "";
  file.remove_prefix(file.find_last_of('/') + 1);  // npos + 1 is 0
  return fmt::format("  {}:{}", file, value.made_at.line());
}

}  // namespace

std::vector<Holder> largest_holders(const std::vector<EagerValue*>& values) {
  std::vector<Holder> holders;
  for (const EagerValue* value : largest(values))
    holders.push_back({std::string(kind_of(*value)), Tag::Eager, value->bytes});
  return holders;
}

std::string describe_values(const std::vector<EagerValue*>& values, int64_t now) {
  std::string text;
  for (const EagerValue* value : largest(values))
    text += fmt::format("\n  {:>10}  {}  {}  age {}{}", format_bytes(value->bytes), kind_of(*value),
                        to_string(value->type), now - value->born, place_of(*value));
  return text.empty() ? text : "\nthe largest eager values:" + text;
}

}  // namespace plimsoll::eager
