// Pruning: while a model trains, its weights of small magnitude become zero by a schedule. Schedules, defaults and step
// numbers are those of tfmot (tensorflow-model-optimization).
//
//   net.prune({.from = 0.5, .to = 0.8, .begin = 1000, .end = 10'000});
//   net.fit(train, line, {.epochs = 20});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Pruning {
  // The share of zeros in each weight: `to` from step `begin` on; or, where `from` is set, rising from that to `to`
  // between `begin` and `end` as to + (from - to) (1 - p)^power.
  std::optional<double> from = {};
  double to = 0.5;
  int64_t begin = 0;        // steps count updates of the weights; the first is step 1
  int64_t end = -1;         // the last step that changes the masks; -1: there is none
  int64_t frequency = 100;  // the masks are made anew each so many steps
  double power = 3;
  // Of matrices [inputs, outputs]: weights are kept or not in blocks, by the mean or the largest of their magnitudes.
  int64_t block_height = 1, block_width = 1;
  enum class Pool : uint8_t { Mean, Largest };
  Pool pool = Pool::Mean;
  // Instead of a schedule: of four weights along the inputs two are zero, from the first step on.
  bool two_of_four = false;
  // Names of layers or weights, `*` and `?` stand for any text and any letter; none: the kernels of dense and
  // convolution layers (not of depthwise ones).
  std::vector<std::string> layers = {};

  // "from=0.5,to=0.8,begin=1000,end=10000,frequency=100,power=3,block=4x1,pool=largest,layers=dense*:conv1" or
  // "two-of-four". Throws Error(Usage).
  static Pruning parse(std::string_view text);
  // Throws Error(Usage) for settings that make no sense.
  void check() const;
  friend bool operator==(const Pruning&, const Pruning&) = default;
};

}  // namespace plimsoll
