// Placed boxes, found by the time that they live: what a box to be placed must not overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {

// Times are halved again and again, and a box is listed at the fewest stretches that make up its life. The boxes of one
// list are alive together, so that sorted by offset they are sorted by end as well.
class PlacedTree {
 public:
  struct Placed {
    Bytes offset, end;
    int32_t box;
  };

  explicit PlacedTree(const Boxes& boxes);
  void add(int32_t box, Bytes offset);
  void remove(int32_t box, Bytes offset);

  // Finds all that is alive at some time of this box, each once.
  void gather(int32_t box);
  // What was gathered, sorted by offset or by end; valid until the next call of the same name.
  const std::vector<Placed>& by_offset();
  const std::vector<Placed>& by_end();

  // Boxes and stretches of time looked at since the start: what all this costs.
  int64_t looks() const { return looks_; }

 private:
  using List = std::vector<Placed>;
  template <class Edit>
  void edit_lists(size_t node, int32_t begin, int32_t end, const Box& box, int32_t change, const Edit& edit);
  void gather(size_t node, int32_t begin, int32_t end, const Box& box);
  template <class Key>
  void merge_runs(List& merged, const Key& key);

  const Boxes& boxes_;
  int32_t width_ = 1;
  std::vector<List> lists_;
  std::vector<List> beginning_;           // those of each list whose life begins with the stretch
  std::vector<int32_t> beginning_below_;  // by node: entries of `beginning_` in it and below it
  int64_t looks_ = 0;
  List gathered_, by_offset_, by_end_, merging_;
  std::vector<size_t> run_ends_, runs_left_;  // lists within what was gathered
};

// Pairs of boxes that are alive together: the least looks of placing them all once.
int64_t count_meetings(const Boxes& boxes);

// As place_in_holes, for any number of boxes. Subtracts what it spends from `looks`.
Offsets place_in_tree(const Boxes& boxes, const BoxOrder& order, Fit fit, int64_t& looks);

}  // namespace plimsoll::plan
