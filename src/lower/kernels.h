// Kernels made once for each distinct set of facts: thousands of equal layers share a few primitives.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ops/kernel.h"

namespace plimsoll {

class KernelStore {
 public:
  const Prepared& prepare(const Op& op, const Facts& facts);
  // A task that copies a value into another layout.
  const Prepared& reorder(const ConcreteType& from, const Layout& to);
  size_t size() const { return prepared_.size(); }
  // Forgets kernels that no program holds.
  void drop_unused();
  // The most that a library takes by itself while one of the kernels runs.
  Bytes library_bytes() const { return library_bytes_; }

 private:
  int id_of(const Layout& layout);
  void append(std::string& key, const ConcreteType& type);
  std::unordered_map<std::string, Prepared> prepared_;
  std::vector<Layout> layouts_;
  Bytes library_bytes_ = 0;
};

}  // namespace plimsoll
