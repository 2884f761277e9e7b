#include "lower/kernels.h"

#include <algorithm>

#include "kernels/dnnl_kernel.h"
#include "kernels/guard.h"

namespace plimsoll::lower {
namespace {

void append_number(std::string& key, int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

int KernelStore::id_of(const kernels::Layout& layout) {
  const auto at = std::find(layouts_.begin(), layouts_.end(), layout);
  if (at != layouts_.end()) return static_cast<int>(at - layouts_.begin());
  layouts_.push_back(layout);
  return static_cast<int>(layouts_.size()) - 1;
}

void KernelStore::append(std::string& key, const kernels::ConcreteType& type) {
  key += static_cast<char>(type.dtype);
  key += static_cast<char>(type.is_open);
  append_number(key, id_of(type.layout));
  append_number(key, type.dims.rank());
  for (const int64_t dim : type.dims) append_number(key, dim);
}

const kernels::Prepared& KernelStore::prepare(const graph::Op& op, const kernels::Facts& facts) {
  std::string key(op.name);
  key += '(';
  for (const kernels::ConcreteType& type : facts.in) append(key, type);
  key += '|';
  for (const kernels::ConcreteType& type : facts.out) append(key, type);
  key += facts.accumulate ? '+' : '=';
  key += facts.slim ? '<' : ' ';
  append_number(key, facts.batch);
  append_number(key, facts.whole_batch);
  key += to_string(facts.attrs);
  const auto at = prepared_.find(key);
  if (at != prepared_.end()) return at->second;
  if (before_making_) before_making_();
  return prepared_.emplace(std::move(key), prepare_guarded(op, facts)).first->second;
}

void KernelStore::drop_unused() {
  std::erase_if(prepared_, [](const auto& entry) { return entry.second.kernel.use_count() == 1; });
}

const kernels::Prepared& KernelStore::reorder(const kernels::ConcreteType& from, const kernels::Layout& to) {
  std::string key = "reorder(";
  append(key, from);
  append_number(key, id_of(to));
  const auto at = prepared_.find(key);
  if (at != prepared_.end()) return at->second;
  if (before_making_) before_making_();
  kernels::Prepared prepared;
  prepared.kernel = make_reorder(from, to, &prepared.workspace_bytes);
  prepared.in = {from.layout};
  prepared.out = {to};
  return prepared_.emplace(std::move(key), std::move(prepared)).first->second;
}

}  // namespace plimsoll::lower
