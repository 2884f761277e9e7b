#include "session/budget.h"

#include <algorithm>

#include "session/homes.h"
#include "session/request.h"

namespace plimsoll::session {

Bytes Budget::transfer_bytes() const { return has_transfers_ ? Homes::kBytes : 0; }

Bytes Budget::action_bytes() const { return covers_process() ? kBytesOfAction + options_.caller_step_bytes : 0; }

// A cached plan has used some of this room: the next one gets what is left.
void Budget::hold_other_batches() {
  if (covers_process()) other_batches_.resize(std::clamp<Bytes>(line_.free(), 0, other_batches_bytes_));
}

void Budget::reduce_left_free(Bytes grown) { left_free_ -= std::clamp<Bytes>(grown, 0, left_free_); }

Bytes Budget::overhead_bytes() const {
  return caller_bytes() + later_bytes_ + other_batches_bytes_ + transfer_bytes() + options_.data_bytes;
}

void Budget::release_all_but_data() {
  release_arena();
  caller_.release();
  later_.release();
  other_batches_.release();
  plans_.release();
  transfers_.release();
}

void Budget::hold_overhead(Bytes leaving, bool is_open) {
  release_all_but_data();
  if (!is_open) {
    data_.reset();
    data_more_bytes_ = 0;
  }
  line_.measure_process(leaving);
  runtime_bytes_ = line_.process_bytes();
  has_overhead_ = overhead_bytes() <= line_.free();
  if (!has_overhead_) return;
  caller_ = line_.reserve(Tag::Runtime, caller_bytes());
  later_ = line_.reserve(Tag::Runtime, later_bytes_);
  other_batches_ = line_.reserve(Tag::Runtime, other_batches_bytes_);
  plans_ = line_.reserve(Tag::Runtime, 0);
  transfers_ = line_.reserve(Tag::Staging, transfer_bytes());
  if (!data_ && options_.data_bytes > 0) data_ = line_.share(Tag::Data, options_.data_bytes);
}

void Budget::give_to_data(Bytes more) {
  data_more_bytes_ += more;
  data_.reset();
  data_ = line_.share(Tag::Data, data_bytes());
}

Bytes Budget::arena_held() const {
  Bytes held = 0;
  for (const Reservation& reservation : arena_) held += reservation.bytes();
  return held;
}

Bytes Budget::limit_for_arena() const {
  if (line_.limit() == MemoryLine::kUnlimited) return MemoryLine::kUnlimited;
  // When even the overhead does not fit, the limit is 0: the refusal then names the whole need.
  if (!has_overhead_) return 0;
  return std::max<Bytes>(0, line_.free() + arena_held() - later_actions_ * action_bytes() - left_free_);
}

Bytes Budget::held_bytes() const {
  Bytes held = (data_ ? data_->limit() : 0) + arena_held();
  for (const Reservation* one : {&caller_, &later_, &other_batches_, &plans_, &transfers_}) held += one->bytes();
  return held;
}

Bytes Budget::runtime_need() const {
  return line_.process_bytes() + overhead_bytes() - options_.data_bytes + plans_.bytes() +
         later_actions_ * action_bytes() + left_free_;
}

Bytes Budget::peak_of_planning(Bytes planning_bytes, Bytes leaving) const {
  return line_.used() - held_bytes() + leaving + planning_bytes;
}

void Budget::note_runtime() {
  runtime_bytes_ = line_.process_bytes() + caller_.bytes() + later_.bytes() + other_batches_.bytes() + plans_.bytes();
}

Bytes Budget::settle(int64_t actions, Bytes leaving) {
  // Plans exist and are measured with the process; their executors come when the session opens.
  if (covers_process()) plans_.resize(actions * (kBytesOfBoundAction + options_.caller_step_bytes));
  line_.measure_process(leaving);
  note_runtime();
  if (!covers_process()) return 0;
  return std::max<Bytes>(0, line_.used() - line_.limit());
}

void Budget::hold_arena(Bytes arena_bytes, const plan::BytesByTag& by_tag) {
  arena_.clear();
  Bytes named = 0;
  for (size_t i = 0; i < kTagCount; ++i) {
    if (by_tag[i] == 0) continue;
    arena_.push_back(line_.reserve(static_cast<Tag>(i), by_tag[i]));
    named += by_tag[i];
  }
  // Gaps between buffers count as workspace.
  if (arena_bytes > named) arena_.push_back(line_.reserve(Tag::Workspace, arena_bytes - named));
}

void Budget::set_arena_resident() {
  for (Reservation& held : arena_) held.set_resident(held.bytes());
}

void Budget::release_all() {
  release_all_but_data();
  data_.reset();
}

}  // namespace plimsoll::session
