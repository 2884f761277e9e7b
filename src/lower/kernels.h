// Kernels made once for each distinct set of facts: thousands of equal layers share a few primitives.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/kernel.h"

namespace plimsoll::lower {

class KernelStore {
 public:
  const kernels::Prepared& prepare(const graph::Op& op, const kernels::Facts& facts);
  // A task that copies a value into another layout.
  const kernels::Prepared& reorder(const kernels::ConcreteType& from, const kernels::Layout& to);
  size_t size() const { return prepared_.size(); }
  // Forgets kernels that no program holds.
  void drop_unused();
  // The most that a library takes by itself while one of the kernels runs.
  Bytes library_bytes() const { return library_bytes_; }

 private:
  int id_of(const kernels::Layout& layout);
  void append(std::string& key, const kernels::ConcreteType& type);
  std::unordered_map<std::string, kernels::Prepared> prepared_;
  std::vector<kernels::Layout> layouts_;
  Bytes library_bytes_ = 0;
};

}  // namespace plimsoll::lower
