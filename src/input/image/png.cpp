#include "input/image/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::input {
namespace {

// libpng's own structures, and zlib's window and tables.
constexpr Bytes kDecoderBytes = 256 * KiB;
constexpr Bytes kWidestPixel = 8;  // 16 bits of four channels

}  // namespace

struct PngDecoder::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump;
  char message[200] = {};
  ImageInput* input = nullptr;
  std::span<const std::byte> piece;
  Bytes taken = 0, most = 0;  // by libpng
  ImageSize size;
  int channels = 3;
  std::vector<uint8_t> whole;  // an interlaced image, which has no rows before its end
  int64_t next_row = 0;

  // libpng leaves a failed function by longjmp, which crosses frames of C code only.
  template <class Call>
  void guard(const Call& call) {
    if (setjmp(jump) == 0) {
      call();
      return;
    }
    const auto unused = static_cast<Bytes>(piece.size());
    close();
    refuse_image(*input, unused, fmt::format("damaged PNG ({}); fetch the file again", message));
  }

  void close() {
    if (png != nullptr) ::png_destroy_read_struct(&png, &info, nullptr);
    whole.clear();
  }

  [[noreturn]] void fail(const char* text) {
    message[std::string_view(text).copy(message, sizeof message - 1)] = '\0';
    std::longjmp(jump, 1);
  }

  static void on_error(png_structp png, png_const_charp text) {
    static_cast<State*>(::png_get_error_ptr(png))->fail(text);
  }
  static void on_warning(png_structp, png_const_charp) {}

  static void read(png_structp png, png_bytep into, size_t bytes) {
    State& state = *static_cast<State*>(::png_get_io_ptr(png));
    while (bytes > 0) {
      if (state.piece.empty()) state.piece = state.input->next_piece();
      if (state.piece.empty()) state.fail("it ends too early");
      const size_t now = std::min(bytes, state.piece.size());
      std::memcpy(into, state.piece.data(), now);
      state.piece = state.piece.subspan(now);
      into += now;
      bytes -= now;
    }
  }

  // The size of each block stands before it.
  static png_voidp take(png_structp png, png_alloc_size_t bytes) {
    State& state = *static_cast<State*>(::png_get_mem_ptr(png));
    const auto all = static_cast<Bytes>(bytes) + Bytes(alignof(std::max_align_t));
    if (all > state.most - state.taken) return nullptr;
    auto* const block = static_cast<std::byte*>(std::malloc(static_cast<size_t>(all)));
    if (block == nullptr) return nullptr;
    std::memcpy(block, &all, sizeof all);
    state.taken += all;
    return block + alignof(std::max_align_t);
  }
  static void give_back(png_structp png, png_voidp memory) {
    if (memory == nullptr) return;
    std::byte* const block = static_cast<std::byte*>(memory) - alignof(std::max_align_t);
    Bytes all;
    std::memcpy(&all, block, sizeof all);
    static_cast<State*>(::png_get_mem_ptr(png))->taken -= all;
    std::free(block);
  }

  void set_up_rows() const {
    ::png_set_scale_16(png);
    ::png_set_expand(png);
    const bool has_alpha =
        (::png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 || ::png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    png_color_16 white{};  // in the depth of the file, which is scaled to 8 bits later
    white.red = white.green = white.blue = white.gray = ::png_get_bit_depth(png, info) == 16 ? 65535 : 255;
    if (has_alpha) ::png_set_background(png, &white, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1);
    const bool has_colour = (::png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
    if (channels == 3 && !has_colour) ::png_set_gray_to_rgb(png);
    if (channels == 1 && has_colour) ::png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, -1, -1);
    ::png_set_interlace_handling(png);
    ::png_read_update_info(png, info);
  }
};

PngDecoder::PngDecoder() : state_(std::make_unique<State>()) {}
PngDecoder::~PngDecoder() { state_->close(); }

ImageSize PngDecoder::open(ImageInput& input, DecodeLimits limits, int channels) {
  State& state = *state_;
  state.close();  // an image that was not read to its end
  state.input = &input;
  state.piece = {};
  state.channels = channels;
  state.next_row = 0;
  state.most = limits.image_bytes;
  state.png = ::png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &state, State::on_error, State::on_warning, &state,
                                         State::take, State::give_back);
  if (state.png != nullptr) state.info = ::png_create_info_struct(state.png);
  if (state.info == nullptr) throw Error("libpng cannot start", ErrorKind::DoesNotFit);
  state.guard([&] {
    ::png_set_read_fn(state.png, &state, State::read);
    ::png_set_user_limits(state.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    ::png_read_info(state.png, state.info);
  });
  state.size = {::png_get_image_height(state.png, state.info), ::png_get_image_width(state.png, state.info)};
  const bool is_interlaced = ::png_get_interlace_type(state.png, state.info) != PNG_INTERLACE_NONE;
  const Bytes row = state.size.width * channels;
  expect_within(
      limits, state.size,
      kDecoderBytes + 2 * kWidestPixel * state.size.width +
          (is_interlaced && state.size.height <= limits.most_pixels / state.size.width ? state.size.height * row : 0),
      input);
  if (is_interlaced) state.whole.resize(static_cast<size_t>(state.size.height * row));
  state.guard([&] {
    state.set_up_rows();
    if (static_cast<Bytes>(::png_get_rowbytes(state.png, state.info)) != row) state.fail("rows of an unknown kind");
    if (!is_interlaced) return;
    constexpr int kPasses = 7;
    for (int pass = 0; pass < kPasses; ++pass)
      for (int64_t y = 0; y < state.size.height; ++y) ::png_read_row(state.png, state.whole.data() + y * row, nullptr);
  });
  return state.size;
}

ImageSize PngDecoder::size() const { return state_->size; }

void PngDecoder::next(uint8_t* into) {
  State& state = *state_;
  const int64_t y = state.next_row++;
  const auto row = static_cast<size_t>(state.size.width * state.channels);
  if (!state.whole.empty()) {
    std::memcpy(into, state.whole.data() + static_cast<size_t>(y) * row, row);
    return;
  }
  state.guard([&] { ::png_read_row(state.png, into, nullptr); });
}

void PngDecoder::finish() {
  state_->guard([&] { ::png_read_end(state_->png, nullptr); });
  state_->close();
}

}  // namespace plimsoll::input
