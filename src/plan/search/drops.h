// Which values are dropped and recomputed, on a fixed order of tasks; and the bytes alive that follow from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "plan/problem.h"
#include "plan/search/live_tree.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

// A stage is one task of the order together with the tasks that run again just before it, which go in the order's own
// sequence. A value is alive from where it is made to its last need before it is dropped:
//
//   stage        3     7    12        40    41
//   need       made   kept  kept     remade kept      alive 3-12 and 40-41, its task runs again in stage 40
//
// A task that runs again needs its inputs in that stage: they are held until then, recomputed a little earlier than
// they would have been anyway, or recomputed only for this.
struct Need {
  int32_t stage = 0;
  int32_t users = 0;  // the task of the stage, and those that run again in it
  bool is_remade = false;
};

// The stretch before one need of a value, in which it may be dropped.
struct Gap {
  BufferId id = 0;
  int32_t before = 0, after = 0;  // stages of the needs around it
};

class Drops {
 public:
  Drops(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place, int64_t batch);

  // A value is held for a task that runs again only while the bytes alive stay at or below this; else it is recomputed.
  void set_target(Bytes bytes) { target_ = bytes; }
  int32_t stages() const { return stages_; }
  int32_t buffers() const { return static_cast<int32_t>(needs_.size()); }
  Bytes size_of(BufferId id) const { return sizes_->buffers[id]; }
  double ns_of(BufferId id) const { return program_->ns[program_->maker[id]]; }
  bool is_remakeable(BufferId id) const { return program_->maker[id] >= 0; }
  // Whether its task reads anything but variables.
  bool has_inputs(BufferId id) const { return !program_->reads[program_->maker[id]].empty(); }
  const std::vector<Need>& needs(BufferId id) const { return needs_[id]; }
  const LiveTree& alive() const { return alive_; }  // by stage, without variables
  double extra_ns() const { return extra_ns_; }
  int64_t work() const { return work_; }  // done in all, counted

  int32_t maker_of(BufferId id) const { return program_->maker[id]; }
  // Index of the need at the end of the gap; 0 when the gap is no longer as it was.
  size_t find(const Gap& gap) const;
  // The stage where a value dropped before this need would be recomputed; -1 when it can't be.
  int32_t find_remake(BufferId id, size_t need) const;
  // Indices of needs that are remade in the stage, by buffer.
  std::vector<std::pair<BufferId, size_t>> remade_in(int32_t stage) const;
  // Each change can be taken back by undo() until the next one. False when a change grew too large: undo it.
  bool drop(BufferId id, size_t need);
  bool drop_all(std::span<const Gap> gaps);  // as one change; sorted by maker
  bool keep(BufferId id, size_t need);
  void undo();
  // Is every stage that the last change touched or raised at or below the bound, no higher than it was before, or below
  // `relieved`, the peak that the change is meant to lower?
  bool stays_below(Bytes bound, Bytes relieved);
  // Are all stages of the last change in which tasks run again at or below the bound?
  bool returns_below(Bytes bound);

  std::vector<TaskId> actions() const;

 private:
  // What no change touches: all copies share it.
  struct Program {
    std::vector<TaskId> order;
    std::vector<std::vector<BufferId>> reads, writes;  // by stage, without variables; updates count as reads
    std::vector<double> ns;                            // by stage
    std::vector<int32_t> maker;                        // by buffer: the stage that makes it, -1 when it must be kept
    std::vector<int32_t> rerun_until;                  // by stage: the last stage in which its task may run again
  };
  struct Rerun {
    int32_t task = 0;  // by its stage
    int32_t users = 0;
  };
  struct Change {
    enum class Kind : uint8_t { Insert, Erase, Users, Flag, RerunUsers, Alive, Local } kind;
    int32_t a = 0, b = 0;
    Bytes bytes = 0;
    bool flag = false;
  };
  struct Touch {
    int32_t first = 0, last = 0;
    Bytes before = 0;
  };
  struct Errand {
    BufferId id = 0;
    int32_t stage = 0;
  };

  Program read_program(const std::vector<TaskId>& order, int64_t batch) const;
  void find_makers(Program& program) const;
  void find_needs();
  void begin(int64_t most_work);
  void start_drop(BufferId id, size_t need);
  bool finish();
  void need(BufferId id, int32_t stage);
  void release(BufferId id, int32_t stage);
  void run_again(int32_t task, int32_t stage);
  void run_no_more(int32_t task, int32_t stage);
  void insert_need(BufferId id, size_t at, int32_t stage, int32_t users, bool is_remade);
  void erase_need(BufferId id, size_t at);
  void count_users(BufferId id, size_t at, int32_t change);
  void set_flag(BufferId id, size_t at, bool is_remade);
  void change_rerun(int32_t task, int32_t stage, int32_t change);
  void change_alive(int32_t first, int32_t last, Bytes bytes);
  void touch(int32_t stage);
  void measure_touched();
  Bytes find_local_peak(int32_t stage);
  Bytes shared_in(int32_t task, int32_t moment);
  void look_up(BufferId id, int32_t stage);
  size_t find_need(BufferId id, int32_t stage) const;
  bool fits(int32_t first, int32_t last, BufferId id) const {
    return alive_.highest(first, last) + sizes_->buffers[id] <= target_;
  }

  const Problem* problem_;
  const Sizes* sizes_;
  bool in_place_;
  int32_t stages_;
  std::shared_ptr<const Program> program_;
  std::vector<std::vector<Need>> needs_;            // by buffer
  std::vector<std::vector<Rerun>> reruns_;          // by stage, in order
  std::vector<std::vector<int32_t>> rerun_stages_;  // by task
  LiveTree alive_;
  std::vector<Bytes> local_;  // by stage: its highest moment above what enters it
  Bytes target_ = 0;
  double extra_ns_ = 0;

  // The last change.
  std::vector<Change> journal_;
  std::vector<Touch> raised_, touched_;
  std::vector<int32_t> touch_of_;  // by stage: index into touched_, or -1
  std::vector<Errand> to_need_, to_release_;
  double ns_before_ = 0;
  int64_t work_ = 0, most_work_ = 0;

  // For one look at a stage.
  struct Presence {
    int32_t stamp = 0;
    int32_t last_moment = 0;
    int32_t born = -1;  // the moment it was made in this stage
    bool is_alive = false, stays = false, is_taken = false;
  };
  std::vector<Presence> presence_;
  int32_t stamp_ = 0;
};

}  // namespace plimsoll::plan
