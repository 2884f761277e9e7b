// What a plan does, as text, from its problem and the plan alone.
#pragma once

#include <string>

#include <plimsoll/types.h>
#include "plan/plan.h"

namespace plimsoll::report {

// What was asked for that changes results.
struct ResultChanges {
  DType values = DType::F32;     // of values that the backward pass reads, between uses
  bool half_products = false;    // some products are computed in bf16
  int state_bits = 32;           // of an element of the optimiser's state
  DType frozen = DType::F32;     // of weights that are not trained
  bool splits_the_norm = false;  // batch_norm takes each micro-batch for a batch of its own
  bool is_lossy() const { return values != DType::F32 || half_products || state_bits < 32 || frozen != DType::F32; }
};

// "values in bf16 and optimiser state in 8 bits": what is not kept in f32.
std::string storage_text(DType values, int state_bits, DType frozen = DType::F32);

// "in 4 micro-batches of 8 samples · recomputes 12 tasks (+4.1 %) · ... · bit-identical". The folder may be empty.
std::string actions_text(const plan::Problem& problem, const plan::Plan& plan, const std::string& scratch_folder,
                         const ResultChanges& changes = {});
// "bit-identical", or why not.
std::string exactness_text(const plan::Plan& plan, const ResultChanges& changes = {});
// The same in one word, for programs.
std::string exactness_word(const plan::Plan& plan, const ResultChanges& changes);
// "1.24 s a step, +15.1 % against 1.08 s unconstrained"
std::string time_text(const plan::Plan& plan);
// Why the plan is slower than without a line: "the disk, which moves 40.5 GiB in a step and takes 31 s
// for it; the next faster plan found needs a line of 1.1 GiB". Empty where nothing does. `overhead`: what the line
// holds beside arena and plan.
std::string limit_text(const plan::Problem& problem, const plan::Plan& plan, Bytes overhead);
// "62 exchanges of 44.6 MiB in all, predicted 84 ms beside the computation". Empty where there are no other ranks.
std::string network_text(const plan::Problem& problem, const plan::Plan& plan);
// "1,234,567"
std::string grouped_text(int64_t number);
// "+15.1 %"
std::string percent_more(double now, double before);
// The largest decisions, one a line, at most so many; `see_all` tells how to see the others.
std::string decisions_text(const plan::Plan& plan, size_t most, const std::string& see_all = {});
// The task at the moment of the peak.
std::string peak_task(const plan::Problem& problem, const plan::Plan& plan);
// Bytes of each tag at the moment of the peak, with what is held beside the arena.
std::string holders_text(const plan::BytesByTag& bytes);
// "conv1 needs relu1 98 MiB, kernel 9 MiB, ... at once, beside 300 MiB of variables".
std::string needs_text(const plan::Problem& problem, plan::TaskId task, int64_t samples, size_t most);

}  // namespace plimsoll::report
