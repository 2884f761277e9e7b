// Small JPEG and PNG files for tests, and what is in them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// jpeglib.h needs cstdio and does not include it.
#include <jpeglib.h>
#include <png.h>

namespace plimsoll::testing {

struct Picture {
  int64_t height = 0, width = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;
  uint8_t at(int64_t y, int64_t x, int c) const { return pixels[size_t((y * width + x) * channels + c)]; }
};

// Smooth, with an edge, and not the same in any two channels.
inline Picture picture(int64_t height, int64_t width, int channels = 3) {
  Picture result{height, width, channels, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        result.pixels.push_back(uint8_t((x * (3 + c) + y * (7 - c) + (x > y ? 40 : 0)) / 4));
  return result;
}

inline std::string jpeg(const Picture& picture, bool is_progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = unsigned(picture.width);
  info.image_height = unsigned(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : picture.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 92, TRUE);
  if (is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < picture.height; ++y) {
    auto* row = const_cast<uint8_t*>(picture.pixels.data()) + y * picture.width * picture.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string text(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return text;
}

// As libjpeg decodes it with its defaults.
inline Picture decoded(const std::string& file) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  Picture result{info.output_height, info.output_width, info.output_components, {}};
  result.pixels.resize(size_t(result.height * result.width * result.channels));
  while (info.output_scanline < info.output_height) {
    auto* row = result.pixels.data() + info.output_scanline * result.width * result.channels;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return result;
}

// `channels` of the picture: 1 gray, 2 with alpha, 3 RGB, 4 with alpha.
inline std::string png(const Picture& picture, bool is_interlaced = false) {
  constexpr int kTypes[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  png_structp file = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(file);
  std::string text;
  png_set_write_fn(
      file, &text,
      [](png_structp to, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<const char*>(bytes), size);
      },
      nullptr);
  png_set_IHDR(file, info, unsigned(picture.width), unsigned(picture.height), 8, kTypes[picture.channels],
               is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(file, info);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < picture.height; ++y)
    rows.push_back(const_cast<uint8_t*>(picture.pixels.data()) + y * picture.width * picture.channels);
  png_write_image(file, rows.data());
  png_write_end(file, info);
  png_destroy_write_struct(&file, &info);
  return text;
}

}  // namespace plimsoll::testing
