// Where the random numbers of a node come from: a function of seed, step, node and element, so that they are never
// stored, and are the same for any micro-batches, threads and ranks.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "kernels/kernel.h"

namespace plimsoll::kernels {

// Eager code has no steps: its draws are counted, and what a draw gives does not depend on when the code before it ran.
// StepState::step is then this, below 0, and the key of a node is the number of its draw within the recording.
constexpr int64_t step_of_recording(int64_t first_draw) { return -1 - first_draw; }

// `node` is the setting `key` of the node.
inline uint64_t draw_key(const StepState& state, uint64_t node) {
  if (state.step < 0) return mix_bits(state.seed, static_cast<uint64_t>(-1 - state.step) + node);
  return mix_bits(mix_bits(state.seed, static_cast<uint64_t>(state.step)), node);
}

// Counters of draws have 32 bits: higher bits of an element's number go into the key.
inline uint64_t key_of_range(uint64_t key, uint64_t index) {
  return index >> 32 != 0 ? mix_bits(key, index >> 32) : key;
}

// Calls run(done, count, key, counter) for runs of elements with one key each, from element number `index` on.
template <class Run>
void for_each_range(uint64_t key, uint64_t index, uint64_t count, const Run& run) {
  for (uint64_t done = 0; done < count;) {
    const uint64_t to_edge = (uint64_t{1} << 32) - ((index + done) & 0xffffffffU);
    const uint64_t some = count - done < to_edge ? count - done : to_edge;
    run(done, some, key_of_range(key, index + done), static_cast<uint32_t>(index + done));
    done += some;
  }
}

}  // namespace plimsoll::kernels
