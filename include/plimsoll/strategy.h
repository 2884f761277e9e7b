// Who trains a model together: replicas in one process, or ranks that mpirun or srun started.
//
//   net.fit(train, line, {.epochs = 10, .strategy = Strategy::mirrored(2)});
//   net.fit(train, line, {.epochs = 10, .strategy = Strategy::ranks({.shards = 8})});
//   net.fit(train, line, {.epochs = 10, .strategy = Strategy::pipeline({"block6"}, 8)});
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

struct StrategyOptions {
  // Of a batch, whose sums are taken in a fixed tree: results then have the same bits for any number of replicas or
  // ranks that divides it. A power of two; 0: one for each replica or rank.
  int64_t shards = 0;
  // Seconds that one waits for a message of another before it says which of them does not answer.
  double timeout = 300;
};

// The batch is that of all together: each takes some of its samples, and all make the same update from the gradients of
// the whole. Callbacks run on the first replica or rank alone; what they do to the training counts for all.
class Strategy {
 public:
  Strategy();  // this process alone

  // This process is one of several that run the same program, each with a line of its own. Alone when nobody started
  // several. An error of one rank is thrown on all of them.
  static Strategy ranks(const StrategyOptions& options = {});
  // So many replicas as threads of this process, under one line: each has its own copy of weights, gradients and
  // optimiser state, and its share of the processor's threads. Batches are read once.
  static Strategy mirrored(int replicas, const StrategyOptions& options = {});

  // Layers on ranks: each of these layers begins the stage of the next rank, so that there is one rank more than
  // layers. Each rank holds the weights of its own stage. A batch is cut into micro-batches, which the ranks work
  // through one after another; 0: as many as four for each rank, where that divides the batch. Equal to one process but
  // for rounding, and to the last bit where that has the same micro-batches: pipeline({}, 8) is one rank. Layers keep
  // statistics by micro-batch. A last batch that is not full is dropped.
  static Strategy pipeline(std::vector<std::string> first_layers, int64_t micro_batches = 0);

  struct Contents;
  const Contents& contents() const { return *contents_; }  // of the library

 private:
  explicit Strategy(std::shared_ptr<const Contents> contents);

  std::shared_ptr<const Contents> contents_;
};

}  // namespace plimsoll
