// One kernel for each distinct operator, settings, types and layouts: thousands of equal layers share a few primitives.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace plimsoll::lower {

class KernelStore {
 public:
  // Called before each kernel is made: making one runs much code of libraries.
  explicit KernelStore(std::function<void()> before_making = {}) : before_making_(std::move(before_making)) {}

  const kernels::Prepared& prepare(const graph::Op& op, const kernels::Facts& facts);
  // A task that copies a value into another layout.
  const kernels::Prepared& reorder(const kernels::ConcreteType& from, const kernels::Layout& to);
  size_t size() const { return prepared_.size(); }
  // Frees kernels that no program holds.
  void drop_unused();

 private:
  int id_of(const kernels::Layout& layout);
  void append(std::string& key, const kernels::ConcreteType& type);
  std::function<void()> before_making_;
  std::unordered_map<std::string, kernels::Prepared> prepared_;
  std::vector<kernels::Layout> layouts_;
};

}  // namespace plimsoll::lower
