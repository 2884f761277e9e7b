// Random numbers. Most are counter-based: a pure function of key and counter, so that nothing has to be stored to draw
// them again.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;  // the step of splitmix64

// The finaliser of splitmix64: every bit of the input affects about half of the bits of the output; 0 stays 0.
constexpr uint64_t scramble_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A strong 64-bit mix: one draw of splitmix64.
constexpr uint64_t mix_bits(uint64_t x) { return scramble_bits(x + kGoldenRatio); }

constexpr uint64_t mix_bits(uint64_t a, uint64_t b) { return mix_bits(mix_bits(a) ^ b); }

constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix_bits(hash);
}

// 32 random bits from 32-bit operations only, so that vector code can draw eight or sixteen at once.
constexpr uint32_t random_bits(uint32_t key_low, uint32_t key_high, uint32_t counter) {
  uint32_t x = counter ^ key_low;
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x ^= key_high;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  x = (x ^ (x >> 16)) * 0x21f0aaadU;
  return x ^ (x >> 15);
}

// splitmix64: numbers one after another, the same for the same seed on every machine.
class RandomSequence {
 public:
  constexpr explicit RandomSequence(uint64_t seed) : state_(seed) {}
  constexpr uint64_t next() { return scramble_bits(state_ += kGoldenRatio); }
  constexpr int64_t below(int64_t end) { return static_cast<int64_t>(next() % static_cast<uint64_t>(end)); }

 private:
  uint64_t state_;
};

// In [0, 1), 53 bits.
constexpr double unit_real(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace plimsoll
