// Which nodes of an inference pass become operators of bytes, and which values are bytes between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/rewrite.h"

namespace plimsoll::shrink {

enum class Int8Kind : uint8_t { Conv2d, Dense, Add, MaxPool, AveragePool, Concat, Relu, View };

// Nodes that become one operator: the anchor, and those after it that are folded into it.
struct Int8Unit {
  Int8Kind kind;
  NodeId anchor;
  NodeId norm = -1;             // a batch norm of inference
  NodeId last;                  // its output 0 is that of the unit
  std::string activation = {};  // of the last node: relu, relu6, or none
  std::vector<ValueId> x = {};
  ValueId y = -1;
  ValueId kernel = -1, bias = -1;  // variables of conv2d and dense; no bias: -1
  bool is_transposed = false;      // the kernel of a dense layer is [out, in] already
  bool is_int8 = false;

  bool has_weights() const { return kind == Int8Kind::Conv2d || kind == Int8Kind::Dense; }
};

struct Int8Graph {
  const model::TracedPass* pass = nullptr;
  std::vector<Int8Unit> units = {};      // in program order
  std::vector<int32_t> unit_of = {};     // by node; -1: none
  std::vector<bool> needs_bytes = {};    // by value: some operator of bytes reads it
  std::vector<bool> needs_floats = {};   // by value: another operator reads it, or it is an output
  std::vector<ValueId> same_scale = {};  // by value: the first of those that share its scale, such as parts of a concat
  std::vector<bool> leaves_out = {};     // by value: a variable that only units of int8 read

  const graph::Body& body() const { return pass->graph->body(); }
  const Int8Unit* int8_unit(NodeId node) const {
    const int32_t unit = unit_of[static_cast<size_t>(node)];
    return unit >= 0 && units[static_cast<size_t>(unit)].is_int8 ? &units[static_cast<size_t>(unit)] : nullptr;
  }
};

// Units are int8 where that is predicted to be faster at that batch, or wherever there is an int8 form. Throws
// Error(Usage) for a pass that is quantised already, or has nothing to quantise.
Int8Graph find_int8(const model::TracedPass& pass, int64_t batch, bool all);

}  // namespace plimsoll::shrink
