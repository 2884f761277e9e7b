#include <mutex>
#include <unordered_map>

#include "ops/ops.h"
#include "ops/registry.h"
#include "ops/updates/rule.h"

namespace plimsoll::ops {
namespace {

OpList gather_all() {
  OpList all;
  const auto append = [&](const OpList& ops) { all.insert(all.end(), ops.begin(), ops.end()); };
#define OPS(file) append(file##_ops());
#define FUN(result, function, description, ...)
#include <plimsoll/ops.inc>
#include "ops/internal.inc"
#undef OPS
#undef FUN
  append(update_ops());
  return all;
}

std::span<const Op* const> engine_ops() {
  static const OpList all = gather_all();
  return all;
}

// Those of the engine, then those that are registered; they never move, so that spans stay valid.
struct AllOps {
  std::mutex mutex;
  OpList list;
};

// A caller of a function that takes "const Window&" passes a Window.
std::string_view without_reference(std::string_view type) {
  if (type.starts_with("const ")) type.remove_prefix(6);
  if (type.ends_with('&')) type.remove_suffix(1);
  return type;
}

std::vector<Function> describe_all() {
  std::vector<Function> all;
  std::string_view current;
#define OPS(file) current = #file;
#define ARG(type, argument)                 \
  Argument {                                \
    without_reference(#type), #argument, {} \
  }
#define OPT(type, argument, ...) \
  Argument { without_reference(#type), #argument, #__VA_ARGS__ }
#define FUN(result, function, description, ...) \
  all.push_back({#function, #result, description, current, {__VA_ARGS__}});
#include <plimsoll/ops.inc>
#undef OPS
#undef ARG
#undef OPT
#undef FUN
  return all;
}

}  // namespace

std::span<const Op* const> all_ops() {
  static AllOps all;
  const std::lock_guard lock(all.mutex);
  const std::span<const Op*const> engine = engine_ops(), registered = registered_ops();
  if (all.list.empty()) {
    all.list.reserve(engine.size() + kMostRegistered);
    all.list.assign(engine.begin(), engine.end());
  }
  for (size_t i = all.list.size() - engine.size(); i < registered.size(); ++i) all.list.push_back(registered[i]);
  return all.list;
}

const Op* find_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const Op*> map;
    for (const Op* op : engine_ops())
      if (op->infer != nullptr) map.emplace(op->name, op);
    return map;
  }();
  if (const auto at = by_name.find(name); at != by_name.end()) return at->second;
  for (const Op* op : registered_ops())
    if (op->name == name) return op;
  return nullptr;
}

std::span<const Function> functions() {
  static const std::vector<Function> all = describe_all();
  return all;
}

}  // namespace plimsoll::ops
