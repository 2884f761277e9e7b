// Vector code over rows of pixels: weighted sums down and across, and numbers as the output wants them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace plimsoll::input {

// What one output pixel takes from a row of pixels, or one output row from the rows: those from `first` to `last`, the
// ones between with the weight `inner`. With first == last only first_weight counts.
struct PixelSpan {
  int32_t first = 0;
  int32_t last = 0;
  float first_weight = 1;
  float inner_weight = 1;
  float last_weight = 0;
};

// Floats that may be read and written behind the end of a row of floats.
constexpr int64_t kRowPadding = 4;

// into = a * a_weight + b * b_weight
void mix_two_rows(const uint8_t* a, float a_weight, const uint8_t* b, float b_weight, int64_t bytes, float* into);
// into += row * weight
void add_row(const uint8_t* row, float weight, int64_t bytes, float* into);

struct ChannelLine {
  std::array<float, 3> scale = {1, 1, 1};
  std::array<float, 3> offset = {0, 0, 0};
};

// Two columns whose spans have at most two pixels, as vectors of colours take them.
struct PixelPair {
  int32_t first[2], last[2];                // of floats in the row
  float first_weights[8], last_weights[8];  // of each pixel four times
};

// Pixel i of `into` is the sum over columns[i], times scale plus offset. Channels are 3 or 1, interleaved. `pairs` are
// the same columns; empty: spans are longer.
void mix_columns(const float* row, std::span<const PixelSpan> columns, std::span<const PixelPair> pairs, int channels,
                 const ChannelLine& line, float* into);

// Copies past the caches, for what is not read soon. finish_streaming() before another thread reads it.
void stream_floats(const float* from, int64_t count, float* to);
void finish_streaming();

// To the nearest of 0 to 255.
void round_to_bytes(const float* row, int64_t count, uint8_t* into);

// Interleaved to one row for each channel.
void split_channels(const float* row, int64_t pixels, float* first, float* second, float* third);

}  // namespace plimsoll::input
