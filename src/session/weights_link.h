// What a session and the models of its graph know of each other: whose numbers of the weights are the newest.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/body.h"
#include "graph/model_weights.h"

namespace plimsoll::session {

class Engine;

class WeightsLink final : public graph::WeightHolder {
 public:
  // `has_initial_values`: the variables are as the seed makes them. `make_room`: closes the session where it is idle.
  WeightsLink(Engine& engine, graph::Body& graph, uint64_t seed, bool has_initial_values,
              std::function<bool()> make_room);
  ~WeightsLink() override;

  bool is_empty() const { return weights_.empty(); }
  void refresh();                 // before variables are read: they get the newest numbers
  void take();                    // before a step changes them
  void overwrite(ValueId value);  // before one is set
  // Before the session ends: the numbers that nobody else has go to a temporary file. Without its graph they can't be
  // read: they are lost, and later uses say so.
  void keep(bool has_graph) noexcept;

  void read(const graph::ModelWeight& weight, const graph::PutPiece& put) override;
  void lose(const graph::ModelWeight& weight) override;
  void note_shared(const graph::ModelWeight& weight) override;
  bool make_room() override { return make_room_ && make_room_(); }

 private:
  struct Linked {
    std::shared_ptr<graph::ModelWeight> weight;
    ValueId value;
  };
  Tensor tensor_of(const Linked& linked) const;

  Engine& engine_;
  graph::Body& graph_;
  const uint64_t seed_;
  bool has_initial_values_;
  const std::function<bool()> make_room_;
  std::vector<Linked> weights_;
  std::unordered_map<const graph::ModelWeight*, size_t> by_weight_;
  std::atomic<bool> is_current_ = false;  // all of them
  std::atomic<bool> is_alone_ = false;    // no other has the numbers, and no source
};

// Gives the variables of an engine that has no link the newest numbers of their weights.
void copy_weights_in(Engine& engine, graph::Body& graph, uint64_t seed);

}  // namespace plimsoll::session
