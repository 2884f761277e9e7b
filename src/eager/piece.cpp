#include "eager/piece.h"

#include <bit>
#include <cstring>

#include "base/random.h"

namespace plimsoll::eager {
namespace {

constexpr PieceValue kNowhere = -1;

uint64_t word_of(Dim dim) { return static_cast<uint64_t>(dim.count()) << 1 | static_cast<uint64_t>(dim.is_batch()); }

void add_text(PieceKey& key, std::string_view text) {
  key.push_back(text.size());
  for (size_t at = 0; at < text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<size_t>(8, text.size() - at));
    key.push_back(word);
  }
}

void add_type(PieceKey& key, const TensorType& type) {
  key.push_back(static_cast<uint64_t>(type.dtype) << 8 | static_cast<uint64_t>(type.shape.rank()));
  for (const Dim dim : type.shape) key.push_back(word_of(dim));
}

struct AddAttr {
  PieceKey& key;
  void operator()(int64_t number) const { key.push_back(static_cast<uint64_t>(number)); }
  void operator()(double number) const { key.push_back(std::bit_cast<uint64_t>(number)); }
  void operator()(const std::string& text) const { add_text(key, text); }
  void operator()(const Shape& shape) const {
    key.push_back(static_cast<uint64_t>(shape.rank()));
    for (const Dim dim : shape) key.push_back(word_of(dim));
  }
  void operator()(const std::vector<double>& numbers) const {
    key.push_back(numbers.size());
    for (const double number : numbers) key.push_back(std::bit_cast<uint64_t>(number));
  }
};

}  // namespace

Bytes CodePiece::bytes() const {
  size_t bytes = sizeof *this + key.size() * 8 + types.size() * sizeof(TensorType) + leaves.size() * sizeof(PieceLeaf);
  for (const PieceLeaf& leaf : leaves) bytes += leaf.bytes.size();
  for (const PieceNode& node : nodes) bytes += sizeof node + node.in.size() * 4 + node.attrs.items().size() * 160;
  return static_cast<Bytes>(bytes);
}

uint64_t hash_of(const PieceKey& key) {
  uint64_t hash = kGoldenRatio;
  for (const uint64_t word : key) hash = (std::rotl(hash, 23) ^ word) * 0xff51afd7ed558ccdULL;
  return mix_bits(hash);
}

PieceBuilder::PieceBuilder(const graph::Body& recording, std::span<const NodeId> nodes)
    : recording_(recording), nodes_(nodes), numbers_(recording.values().size(), kNowhere) {
  key_.reserve(nodes.size() * 12);
  // Outputs are numbered behind all leaves, whose count is known at the end; until then they count from 0.
  PieceValue outputs = 0;
  for (const NodeId id : nodes) {
    const graph::Node& node = recording.node(id);
    key_.push_back(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(node.op)));
    key_.push_back(static_cast<uint64_t>(node.inputs) << 8 | static_cast<uint64_t>(node.is_backward));
    add_attrs(recording.attrs(node));
    for (const ValueId input : recording.inputs(node)) {
      inputs_.push_back(number(input));
      key_.push_back(static_cast<uint64_t>(static_cast<int64_t>(inputs_.back())));
    }
    for (int i = 0; i < node.outputs; ++i) numbers_[static_cast<size_t>(node.first_output + i)] = outputs++;
  }
  const auto leaves = static_cast<PieceValue>(leaves_.size());
  for (const NodeId id : nodes) {
    const graph::Node& node = recording.node(id);
    for (int i = 0; i < node.outputs; ++i) numbers_[static_cast<size_t>(node.first_output + i)] += leaves;
  }
  for (PieceValue l = 0; l < leaves; ++l) numbers_[static_cast<size_t>(leaves_[static_cast<size_t>(l)])] = l;
}

PieceValue PieceBuilder::number(ValueId value) {
  PieceValue& known = numbers_[static_cast<size_t>(value)];
  if (known != kNowhere) return known;
  const graph::Value& leaf = recording_.value(value);
  key_.push_back(
      static_cast<uint64_t>(leaf.kind == graph::ValueKind::Computed ? graph::ValueKind::Placeholder : leaf.kind) |
      0x100);
  add_type(key_, leaf.type);
  if (leaf.kind == graph::ValueKind::Constant) {
    const std::vector<std::byte>& bytes = recording_.constant_of(value).bytes;
    add_text(key_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } else if (leaf.kind == graph::ValueKind::Variable) {
    key_.push_back(static_cast<uint64_t>(recording_.variable_of(value).role()));
  }
  leaves_.push_back(value);
  known = -1 - static_cast<PieceValue>(leaves_.size());
  return known;
}

void PieceBuilder::add_attrs(const graph::Attrs& attrs) {
  key_.push_back(attrs.items().size());
  for (const auto& [name, attr] : attrs.items()) {
    add_text(key_, name);
    key_.push_back(attr.index());
    std::visit(AddAttr{key_}, attr);
  }
}

std::shared_ptr<const CodePiece> PieceBuilder::build() const {
  auto piece = std::make_shared<CodePiece>();
  piece->key = key_;
  const auto leaves = static_cast<PieceValue>(leaves_.size());
  for (const ValueId value : leaves_) {
    const graph::Value& from = recording_.value(value);
    PieceLeaf leaf{from.type};
    leaf.is_variable = from.kind == graph::ValueKind::Variable;
    leaf.is_constant = from.kind == graph::ValueKind::Constant;
    if (leaf.is_constant) leaf.bytes = recording_.constant_of(value).bytes;
    if (leaf.is_variable) leaf.role = recording_.variable_of(value).role();
    piece->types.push_back(leaf.type);
    piece->leaves.push_back(std::move(leaf));
  }
  const int32_t* in = inputs_.data();
  for (const NodeId id : nodes_) {
    const graph::Node& node = recording_.node(id);
    PieceNode added{node.op,      recording_.attrs(node), {}, static_cast<PieceValue>(piece->types.size()),
                    node.outputs, node.is_backward};
    for (int i = 0; i < node.inputs; ++i, ++in) added.in.push_back(*in < kNowhere ? -2 - *in : *in + leaves);
    for (int i = 0; i < node.outputs; ++i) piece->types.push_back(recording_.value(node.first_output + i).type);
    piece->nodes.push_back(std::move(added));
  }
  return piece;
}

}  // namespace plimsoll::eager
