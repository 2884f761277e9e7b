// Packing problems as tables: `id,lower,upper,size`, and the same with `offset` as the answer.
#pragma once

#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "plan/pack/pack.h"

namespace plimsoll::plan {

struct PackTable {
  std::vector<std::string> ids;
  std::vector<PackItem> items;
};

// Columns may come in any order; others are ignored. Throws Error naming the line.
PackTable read_packing_csv(std::istream& in);
void write_packing_csv(std::ostream& out, const PackTable& table, const Packing& packing);

}  // namespace plimsoll::plan
