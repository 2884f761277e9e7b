// What the streams of interleave share: elements that become datasets under way.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "input/recipe.h"

namespace plimsoll::input {

// A dataset that was made of an element, under way.
struct OpenDataset {
  RecipePtr recipe;
  std::deque<Meter> meters = {};
  std::vector<Stream*> tunable = {};
  std::unique_ptr<Stream> stream = {};

  // Fills rows as Stream::pull, with their shapes. The time counts for `meter`: meters of the inner dataset are not
  // shown.
  int64_t pull(const Rows& rows, Meter& meter);
};

// What is interleaved, and how.
struct Interleaving {
  InterleaveFunction function;
  RecipePtr like;
  int64_t cycle = 1, block = 1;
  int threads = 1;

  const ElementSpec& element() const { return like->element(); }
};

// Makes datasets of the elements of an input, in their order.
class DatasetOpener {
 public:
  DatasetOpener(std::unique_ptr<Stream> input, const ElementSpec& from, const Interleaving& as, MemoryLine& line)
      : input_(std::move(input)), from_(from), as_(as), line_(line), element_(from, 1, line) {}

  // Null at the end. An exception of the function belongs to its element; the next call goes on after that element.
  std::unique_ptr<OpenDataset> open_next();
  bool is_over() const { return is_over_; }
  void rewind(uint64_t epoch);

 private:
  const std::unique_ptr<Stream> input_;
  const ElementSpec& from_;
  const Interleaving& as_;
  MemoryLine& line_;
  Slots element_;
  uint64_t epoch_ = 0;
  int64_t taken_ = 0;  // elements of the input
  bool is_over_ = false;
};

// interleave with threads that read datasets ahead; the order is that of one thread.
Bytes parallel_interleave_bytes(const Interleaving& as, int threads);
int most_interleave_threads(const Interleaving& as);
std::unique_ptr<Stream> make_parallel_interleave(Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input,
                                                 const ElementSpec& from, const Interleaving& as);

}  // namespace plimsoll::input
