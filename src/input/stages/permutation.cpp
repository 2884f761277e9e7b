#include "input/stages/permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/random.h"

namespace plimsoll::input {
namespace {

// Feistel halves of one or two bits mix too little, so tiny sizes use wider ones and cycle-walk longer.
constexpr int kFewestBits = 8;

}  // namespace

Permutation::Permutation(int64_t n, uint64_t seed, int64_t epoch) : n_(n) {
  assert(n >= 1);
  const int bits = std::max(kFewestBits, static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1))));
  low_bits_ = bits / 2;
  low_mask_ = (uint64_t(1) << low_bits_) - 1;
  high_mask_ = (uint64_t(1) << (bits - low_bits_)) - 1;
  RandomSequence sequence(scramble_bits(mix_bits(seed) ^ static_cast<uint64_t>(epoch)));
  for (uint64_t& key : keys_) key = sequence.next();
}

uint64_t Permutation::mix(uint64_t value) const {
  uint64_t low = value & low_mask_, high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    low ^= scramble_bits(high + keys_[round]) & low_mask_;
    high ^= scramble_bits(low + keys_[round + 1]) & high_mask_;
  }
  return high << low_bits_ | low;
}

int64_t Permutation::operator()(int64_t i) const {
  assert(i >= 0 && i < n_);
  auto value = static_cast<uint64_t>(i);
  do {
    value = mix(value);
  } while (value >= static_cast<uint64_t>(n_));  // fewer than two turns on average from 128 on
  return static_cast<int64_t>(value);
}

void Permutation::fill(int64_t first, std::span<int64_t> places) const {
  assert(first >= 0 && first <= n_ - static_cast<int64_t>(places.size()));
  // The first pass over all indices has no branch, so that the processor works on several at once.
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(mix(static_cast<uint64_t>(first) + i));
  for (int64_t& place : places)
    while (place >= n_) place = static_cast<int64_t>(mix(static_cast<uint64_t>(place)));
}

}  // namespace plimsoll::input
