#include "input/image/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <vector>

// After cstdio, which they need and do not include.
#include <jerror.h>
#include <jpeglib.h>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::input {
namespace {

// Rows of every component that libjpeg buffers around the one it gives out: two rows of blocks, their neighbours for
// smooth upsampling, and the upsampled ones.
constexpr Bytes kBufferedRows = 48;
constexpr Bytes kTables = 128 * KiB;

// What libjpeg takes for an image. A progressive one is held whole, as coefficients of two bytes.
Bytes decoder_bytes(const jpeg_decompress_struct& info, bool is_whole) {
  Bytes bytes = kTables + kBufferedRows * Bytes(info.image_width) * Bytes(info.num_components);
  for (int i = 0; is_whole && i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    const Bytes across = round_up(component.width_in_blocks, component.h_samp_factor);
    bytes += across * round_up(component.height_in_blocks, component.v_samp_factor) * Bytes(sizeof(JBLOCK));
  }
  return bytes;
}

// Warnings for damage that libjpeg hides by filling in pixels. Its other warnings are about odd headers.
bool is_damage(int warning) {
  return warning != JWRN_EXTRANEOUS_DATA && warning != JWRN_ADOBE_XFORM && warning != JWRN_JFIF_MAJOR &&
         warning != JWRN_BOGUS_PROGRESSION;
}

void convert_cmyk(const uint8_t* from, int64_t width, int channels, bool is_inverted, uint8_t* into) {
  for (int64_t x = 0; x < width; ++x, from += 4) {
    unsigned rgb[3];
    for (int c = 0; c < 3; ++c) {
      const unsigned ink = is_inverted ? from[c] : 255U - from[c], black = is_inverted ? from[3] : 255U - from[3];
      rgb[c] = (ink * black + 127) / 255;
    }
    if (channels == 1) {
      *into++ = static_cast<uint8_t>((rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114 + 500) / 1000);
    } else {
      for (const unsigned value : rgb) *into++ = static_cast<uint8_t>(value);
    }
  }
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};
  ImageInput* input = nullptr;
  DecodeLimits limits;
  int channels = 3;
  std::vector<uint8_t> cmyk;

  static State& of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }
  static State& of(j_decompress_ptr info) { return *static_cast<State*>(info->client_data); }

  // libjpeg leaves a failed function by longjmp, which crosses frames of C code only.
  template <class Call>
  void guard(const Call& call) {
    if (setjmp(jump) == 0) {
      call();
      return;
    }
    ::jpeg_abort_decompress(&info);
    refuse_image(*input, static_cast<Bytes>(source.bytes_in_buffer),
                 fmt::format("damaged JPEG ({}); fetch the file again", message));
  }

  static void fail(j_common_ptr info) {
    State& state = of(info);
    (*info->err->format_message)(info, state.message);
    std::longjmp(state.jump, 1);
  }

  static void warn(j_common_ptr info, int level) {
    if (level < 0 && is_damage(info->err->msg_code)) fail(info);
  }

  static boolean fill(j_decompress_ptr info) {
    State& state = of(info);
    const std::span<const std::byte> piece = state.input->next_piece();
    state.source.next_input_byte = reinterpret_cast<const JOCTET*>(piece.data());
    state.source.bytes_in_buffer = piece.size();
    if (piece.empty()) {
      constexpr std::string_view kEnd = "it ends too early";
      state.message[kEnd.copy(state.message, sizeof state.message - 1)] = '\0';
      std::longjmp(state.jump, 1);
    }
    return TRUE;
  }

  static void skip(j_decompress_ptr info, long bytes) {
    jpeg_source_mgr& source = of(info).source;
    while (bytes > static_cast<long>(source.bytes_in_buffer)) {
      bytes -= static_cast<long>(source.bytes_in_buffer);
      fill(info);
    }
    if (bytes <= 0) return;
    source.next_input_byte += bytes;
    source.bytes_in_buffer -= static_cast<size_t>(bytes);
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.info.err = ::jpeg_std_error(&state.errors);
  state.info.client_data = &state;
  state.errors.error_exit = State::fail;
  state.errors.emit_message = State::warn;
  state.errors.output_message = [](j_common_ptr) {};
  if (setjmp(state.jump) != 0) throw Error("libjpeg cannot start", ErrorKind::DoesNotFit);
  jpeg_create_decompress(&state.info);
  state.info.client_data = &state;  // creating clears it in some versions
  state.info.src = &state.source;
  state.source.init_source = [](j_decompress_ptr) {};
  state.source.fill_input_buffer = State::fill;
  state.source.skip_input_data = State::skip;
  state.source.resync_to_restart = ::jpeg_resync_to_restart;
  state.source.term_source = [](j_decompress_ptr) {};
}

JpegDecoder::~JpegDecoder() { ::jpeg_destroy_decompress(&state_->info); }

ImageSize JpegDecoder::open(ImageInput& input, DecodeLimits limits) {
  State& state = *state_;
  ::jpeg_abort_decompress(&state.info);  // of an image that was not read to its end
  state.input = &input;
  state.limits = limits;
  state.source.bytes_in_buffer = 0;
  state.info.mem->max_memory_to_use = limits.image_bytes;
  state.guard([&] { ::jpeg_read_header(&state.info, TRUE); });
  const ImageSize size{state.info.image_height, state.info.image_width};
  const bool is_whole = ::jpeg_has_multiple_scans(&state.info) != FALSE;
  expect_within(limits, size, decoder_bytes(state.info, is_whole), input);
  return size;
}

void JpegDecoder::start(int channels, ImageSize least) {
  State& state = *state_;
  jpeg_decompress_struct& info = state.info;
  state.channels = channels;
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  if (info.jpeg_color_space == JCS_UNKNOWN)
    refuse_image(*state.input, static_cast<Bytes>(state.source.bytes_in_buffer),
                 fmt::format("a JPEG of {} unknown components cannot be shown in colour", info.num_components));
  info.out_color_space = is_cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = 1;
  // Only these scales have vector code; others would be slower than decoding the whole image.
  for (const unsigned part : {2U, 4U, 8U})
    if (info.image_width / part >= least.width && info.image_height / part >= least.height) info.scale_denom = part;
  state.guard([&] { ::jpeg_start_decompress(&state.info); });
  if (is_cmyk) state.cmyk.resize(size_t{info.output_width} * 4);
}

ImageSize JpegDecoder::size() const { return {state_->info.output_height, state_->info.output_width}; }

void JpegDecoder::next(uint8_t* into) {
  State& state = *state_;
  const bool is_cmyk = state.info.out_color_space == JCS_CMYK;
  JSAMPROW row = is_cmyk ? state.cmyk.data() : into;
  state.guard([&] { ::jpeg_read_scanlines(&state.info, &row, 1); });
  if (is_cmyk)
    convert_cmyk(state.cmyk.data(), state.info.output_width, state.channels, state.info.saw_Adobe_marker != FALSE,
                 into);
}

void JpegDecoder::finish() {
  state_->guard([&] { ::jpeg_finish_decompress(&state_->info); });
}

}  // namespace plimsoll::input
