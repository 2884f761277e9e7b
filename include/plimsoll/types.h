// The small types that everything is made of: sizes in bytes, element types, and the settings Policy, Levers and
// Window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace plimsoll {

// Sizes in bytes: how people write them, how they are shown, and what memory is held for.

using Bytes = int64_t;

constexpr Bytes KiB = 1024;
constexpr Bytes MiB = 1024 * KiB;
constexpr Bytes GiB = 1024 * MiB;

// Every buffer starts on such a boundary: one cache line, and wide enough for any vector unit.
constexpr Bytes kAlignment = 64;
constexpr Bytes kDiskBlock = 4096;  // offsets and lengths in the scratch file are multiples of this

constexpr Bytes round_up(Bytes bytes, Bytes multiple) { return (bytes + multiple - 1) / multiple * multiple; }

// "512MiB", "1.5 GB", "80%" (of `whole`), "1048576": case-insensitive, MB is 10^6 and MiB 2^20. One letter is the
// binary unit, as with most tools: 64K, 512M, 1G and 2T are KiB, MiB, GiB and TiB. A number without a unit must be
// large enough to be meant as bytes. Throws Error with an example.
Bytes parse_bytes(std::string_view text, Bytes whole = 0);

// "212.4 MiB": short, for people.
std::string format_bytes(Bytes bytes);

// "100,663,296 bytes (96 MiB)": exact, for echoing.
std::string format_exact_bytes(Bytes bytes);

// What memory is held for: the rows of every memory report.
enum class Tag : uint8_t { Weights, Gradients, Optimiser, Activations, Workspace, Data, Staging, Runtime, Eager };

constexpr size_t kTagCount = 9;

std::string_view name_of(Tag tag);     // "weights"
Tag parse_tag(std::string_view name);  // throws Error

// The element types of tensors.
enum class DType : uint8_t { F32, F16, BF16, I32, I64, U8, I8, Bool };

Bytes size_of(DType dtype);
std::string_view name_of(DType dtype);     // "f32"
DType parse_dtype(std::string_view name);  // throws Error
constexpr bool is_float(DType dtype) { return dtype <= DType::BF16; }

// The element type of numbers of a C++ type; those that no tensor can have don't compile.
template <class T>
constexpr bool is_element_type() {
  if constexpr (std::is_integral_v<T>)
    return !std::is_same_v<T, char> && !std::is_same_v<T, char8_t> && (std::is_signed_v<T> || sizeof(T) == 1);
  return std::is_same_v<T, float>;
}
template <class T>
concept Element = is_element_type<T>() &&(sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8);

template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::F32;
  if constexpr (std::is_same_v<T, bool>) return DType::Bool;
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? DType::I8 : DType::U8;
  return sizeof(T) == 4 ? DType::I32 : DType::I64;
}

// A set of element types.
class DTypes {
 public:
  constexpr DTypes() = default;
  constexpr DTypes(DType one) : bits_(1U << static_cast<unsigned>(one)) {}  // NOLINT(google-explicit-constructor)
  constexpr DTypes(std::initializer_list<DType> types) {
    for (const DType type : types) bits_ |= 1U << static_cast<unsigned>(type);
  }
  constexpr bool has(DType type) const { return (bits_ >> static_cast<unsigned>(type) & 1U) != 0; }

 private:
  uint32_t bits_ = 0;
};

constexpr DType kEveryType[] = {DType::F32, DType::F16, DType::BF16, DType::I32,
                                DType::I64, DType::U8,  DType::I8,   DType::Bool};
constexpr DTypes kFloats{DType::F32, DType::F16, DType::BF16};
constexpr DTypes kAnyType{DType::F32, DType::F16, DType::BF16, DType::I32,
                          DType::I64, DType::U8,  DType::I8,   DType::Bool};
constexpr DTypes kWholeTypes{DType::I32, DType::I64, DType::U8, DType::I8, DType::Bool};
std::string to_string(DTypes types);  // "f32, f16 or bf16"

// Policy: in what type values are kept and products computed. Weights, gradients and the optimiser are f32 under every
// policy.
struct Policy {
  // The type in which values that the backward pass reads are kept between their uses. Results differ from those of
  // f32, but are the same under every line.
  DType values = DType::F32;
  // With bf16, training steps also compute products (matmul, convolutions, their gradients) on bf16 operands with f32
  // sums, where the processor multiplies bf16 and that is faster; all other kernels compute in f32. f16 is storage
  // alone: it has no such kernels.
  bool half_products = true;
  // f16 needs loss scaling (Optimiser::scales_loss), which training then switches on: its range is small.
  bool scales_loss() const { return values == DType::F16; }

  static Policy float32() { return {}; }
  static Policy mixed_float16() { return {DType::F16}; }
  static Policy mixed_bfloat16() { return {DType::BF16}; }
  // Storage alone: products in f32 on every processor.
  static Policy stored_bfloat16() { return {DType::BF16, false}; }
  // "float32", "mixed_float16", "mixed_bfloat16", "stored_bfloat16"; throws Error for another name.
  static Policy named(std::string_view name);
  std::string_view name() const;

  friend bool operator==(const Policy&, const Policy&) = default;
};

// What the planner may do to make a step fit.

// Each can be switched off. All keep results bit-identical but micro_batch, which adds gradients in another order.
struct Levers {
  bool order = true;        // run tasks in the order with the lowest peak
  bool in_place = true;     // write a result over an input that nothing reads any more
  bool variants = true;     // run a kernel in a form with less workspace
  bool recompute = true;    // drop a value and compute it again before its next use
  bool micro_batch = true;  // run the step on smaller batches one after another
  bool spill = true;        // keep weights, optimiser state or values in a scratch file
  bool operator==(const Levers&) const = default;
};

// How a window (of a convolution or a pooling) moves over an image.

using Size2d = std::array<int64_t, 2>;  // down, across

struct Window {
  Size2d strides{1, 1};
  std::array<int64_t, 4> pads{0, 0, 0, 0};  // top, left, bottom, right
  Size2d dilations{1, 1};                   // 1: no holes
  int64_t groups = 1;

  static Window strided(int64_t stride, int64_t pad = 0) { return {{stride, stride}, {pad, pad, pad, pad}, {1, 1}, 1}; }
  static Window padded(int64_t pad) { return strided(1, pad); }
  void check() const;  // throws Error for numbers that make no sense
};

// As Keras' padding="same": the pads that make ceil(size / stride) outputs.
std::array<int64_t, 4> same_pads(Size2d image, Size2d filter, const Window& window);

}  // namespace plimsoll
