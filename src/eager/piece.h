// A piece of recorded code as structure alone: operators, settings and types, without the values it is run on. Equal
// pieces share plans.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <plimsoll/graph.h>
#include "graph/body.h"

namespace plimsoll::eager {

using PieceValue = int32_t;  // leaves first, then the outputs of the nodes in order

struct PieceLeaf {
  TensorType type;
  bool is_variable = false;           // may be changed by a node
  std::vector<std::byte> bytes = {};  // of a constant; else empty
  bool is_constant = false;
  VariableRole role = VariableRole::Weight;
};

struct PieceNode {
  const graph::Op* op;
  graph::Attrs attrs;
  std::vector<PieceValue> in;
  PieceValue first_out;
  int32_t outputs;
  bool is_backward;
};

using PieceKey = std::vector<uint64_t>;

struct CodePiece {
  PieceKey key;
  std::vector<PieceLeaf> leaves;
  std::vector<PieceNode> nodes;
  std::vector<TensorType> types;  // by value
  Bytes bytes() const;            // that it takes itself
};

// A piece of some nodes of a recording; what other nodes compute, or computed, is a leaf of it.
class PieceBuilder {
 public:
  PieceBuilder(const graph::Body& recording, std::span<const NodeId> nodes);  // in program order

  const PieceKey& key() const { return key_; }
  const std::vector<ValueId>& leaves() const { return leaves_; }  // of the recording, in the order of the piece's
  // -1 for values that are not in it.
  PieceValue number_of(ValueId value) const { return numbers_[static_cast<size_t>(value)]; }
  std::shared_ptr<const CodePiece> build() const;

 private:
  PieceValue number(ValueId value);
  void add_attrs(const graph::Attrs& attrs);

  const graph::Body& recording_;
  std::span<const NodeId> nodes_;
  PieceKey key_;
  std::vector<ValueId> leaves_;
  std::vector<PieceValue> numbers_;  // by value of the recording: while nodes are read, leaf l is -2 - l
  std::vector<int32_t> inputs_;
};

uint64_t hash_of(const PieceKey& key);

}  // namespace plimsoll::eager
