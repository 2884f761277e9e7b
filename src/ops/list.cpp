#include <unordered_map>

#include "ops/ops.h"

namespace plimsoll::ops {
namespace {

OpList gather() {
  OpList all;
  const auto append = [&](const OpList& ops) { all.insert(all.end(), ops.begin(), ops.end()); };
#define OPS(file) append(file##_ops());
#define FUN(result, function, parameters)
#include "ops/list.inc"
#undef OPS
#undef FUN
  return all;
}

}  // namespace

std::span<const Op* const> all_ops() {
  static const OpList all = gather();
  return all;
}

const Op* find_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const Op*> map;
    for (const Op* op : all_ops()) map.emplace(op->name, op);
    return map;
  }();
  const auto at = by_name.find(name);
  return at == by_name.end() ? nullptr : at->second;
}

}  // namespace plimsoll::ops
