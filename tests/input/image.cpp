#include "input/image/image.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/files.h"
#include "input/pictures.h"
#include "input/records.h"

namespace plimsoll::input {
namespace {

using testing::bytes_of;
using testing::decoded;
using ::testing::HasSubstr;
using testing::jpeg;
using testing::Picture;
using testing::picture;
using testing::png;

template <class Number>
std::vector<Number> read(const std::string& file, const ImageOptions& options, const ImageChange& change = {}) {
  std::vector<Number> values(static_cast<size_t>(ImageReader::field("", options).elements()));
  ImageReader(options).read(bytes_of(file), "image", reinterpret_cast<std::byte*>(values.data()), change);
  return values;
}

ImageOptions as_it_is(const Picture& picture, int channels = 3) {
  return {.height = picture.height, .width = picture.width, .channels = channels, .resize = ResizeMethod::None};
}

TEST(Image, JpegIsWhatLibjpegDecodes) {
  for (const bool progressive : {false, true})
    for (const auto& [height, width] : {std::pair(1, 1), {37, 53}, {240, 320}}) {
      const std::string file = jpeg(picture(height, width), progressive);
      const Picture expected = decoded(file);
      EXPECT_EQ(read<uint8_t>(file, as_it_is(expected)), expected.pixels) << width;
    }
}

TEST(Image, JpegColours) {
  const Picture gray = picture(20, 30, 1);
  const std::string file = jpeg(gray);
  const std::vector<uint8_t> expected = decoded(file).pixels;
  EXPECT_EQ(read<uint8_t>(file, as_it_is(gray, 1)), expected);
  const std::vector<uint8_t> rgb = read<uint8_t>(file, as_it_is(gray));
  for (size_t i = 0; i < rgb.size(); ++i) EXPECT_EQ(rgb[i], expected[i / 3]);
  // CMYK with Adobe's marker is inverted: 0 is full ink, which is black, 255 is none, which is white.
  Picture inks{16, 16, 4, std::vector<uint8_t>(16 * 16 * 4, 0)};
  for (const uint8_t value : read<uint8_t>(jpeg(inks), as_it_is(inks))) EXPECT_EQ(value, 0);
  std::fill(inks.pixels.begin(), inks.pixels.end(), 255);
  for (const uint8_t value : read<uint8_t>(jpeg(inks), as_it_is(inks))) EXPECT_EQ(value, 255);
}

// Over white, rounded.
uint8_t composed(const Picture& from, int64_t y, int64_t x, int channel) {
  const int colour = from.at(y, x, channel), alpha = from.at(y, x, from.channels - 1);
  return static_cast<uint8_t>((colour * alpha + 255 * (255 - alpha) + 127) / 255);
}

// What is transparent is white, also below colours that nobody sees.
TEST(Image, AlphaIsComposedOverWhite) {
  for (const bool interlaced : {false, true})
    for (const int channels : {2, 4}) {
      Picture from = picture(19, 23, channels);
      for (size_t i = 0; i < 60; ++i)
        from.pixels[i * static_cast<size_t>(channels) + size_t(channels) - 1] = i < 30 ? 0 : 255;
      const std::vector<uint8_t> rgb = read<uint8_t>(png(from, interlaced), as_it_is(from));
      for (int64_t i = 0; i < 19 * 23; ++i)
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(rgb[static_cast<size_t>(i * 3 + c)], composed(from, i / 23, i % 23, channels < 3 ? 0 : c), 1)
              << i << " of " << channels;
      EXPECT_EQ(rgb[0], 255);
      EXPECT_EQ(rgb[3 * 40], from.at(40 / 23, 40 % 23, 0));
      const std::vector<uint8_t> gray = read<uint8_t>(png(from, interlaced), as_it_is(from, 1));
      EXPECT_EQ(gray[0], 255);
      if (channels > 2) continue;
      for (int64_t i = 0; i < 19 * 23; ++i)
        ASSERT_NEAR(gray[static_cast<size_t>(i)], composed(from, i / 23, i % 23, 0), 1) << i;
    }
}

TEST(Image, PngIsExact) {
  for (const bool interlaced : {false, true})
    for (const int channels : {1, 3}) {
      const Picture from = picture(19, 23, channels);
      const std::vector<uint8_t> rgb = read<uint8_t>(png(from, interlaced), as_it_is(from));
      for (int64_t y = 0; y < 19; ++y)
        for (int64_t x = 0; x < 23; ++x)
          for (int c = 0; c < 3; ++c)
            ASSERT_EQ(rgb[static_cast<size_t>((y * 23 + x) * 3 + c)], from.at(y, x, channels < 3 ? 0 : c));
      if (channels > 2) continue;
      const std::vector<uint8_t> gray = read<uint8_t>(png(from, interlaced), as_it_is(from, 1));
      for (int64_t i = 0; i < 19 * 23; ++i) ASSERT_EQ(gray[static_cast<size_t>(i)], from.at(i / 23, i % 23, 0));
    }
}

// The value of an output pixel by its definition, in f64.
double bilinear(const Picture& from, const CropBox& box, ImageSize to, int64_t y, int64_t x, int c) {
  const auto side = [](int64_t i, int64_t in, int64_t out) {
    return (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
  };
  const double v = side(y, box.height, to.height), u = side(x, box.width, to.width);
  const auto pixel = [&](double row, double column) {
    return double(from.at(box.y + std::clamp<int64_t>(static_cast<int64_t>(row), 0, box.height - 1),
                          box.x + std::clamp<int64_t>(static_cast<int64_t>(column), 0, box.width - 1), c));
  };
  const double top = std::floor(v), left = std::floor(u), down = v - top, right = u - left;
  return (pixel(top, left) * (1 - right) + pixel(top, left + 1) * right) * (1 - down) +
         (pixel(top + 1, left) * (1 - right) + pixel(top + 1, left + 1) * right) * down;
}

double area(const Picture& from, const CropBox& box, ImageSize to, int64_t y, int64_t x, int c) {
  const double v = double(box.height) / double(to.height), u = double(box.width) / double(to.width);
  double sum = 0;
  for (int64_t row = 0; row < box.height; ++row)
    for (int64_t column = 0; column < box.width; ++column) {
      const double tall = std::min(double(row + 1), double(y + 1) * v) - std::max(double(row), double(y) * v);
      const double wide = std::min(double(column + 1), double(x + 1) * u) - std::max(double(column), double(x) * u);
      if (tall > 0 && wide > 0) sum += tall * wide * from.at(box.y + row, box.x + column, c);
    }
  return sum / (u * v);
}

TEST(Image, ResizesAsDefined) {
  for (const int channels : {1, 3})
    for (const ResizeMethod method : {ResizeMethod::Bilinear, ResizeMethod::Area})
      for (const auto& [height, width] : {std::pair(10, 14), {50, 31}, {40, 60}, {93, 140}, {1, 1}, {7, 130}}) {
        const Picture from = picture(40, 60, channels);
        const ImageOptions options{
            .height = height, .width = width, .channels = channels, .resize = method, .dtype = DType::F32};
        for (const bool flips : {false, true})
          for (const CropBox& box : {CropBox{0, 0, 40, 60}, CropBox{3, 11, 20, 7}}) {
            const std::vector<float> values = read<float>(png(from), options, {box, flips});
            for (int64_t y = 0; y < height; ++y)
              for (int64_t x = 0; x < width; ++x)
                for (int c = 0; c < channels; ++c) {
                  const auto& by_definition = method == ResizeMethod::Area ? area : bilinear;
                  const double expected = by_definition(from, box, {height, width}, y, flips ? width - 1 - x : x, c);
                  ASSERT_NEAR(values[static_cast<size_t>((y * width + x) * channels + c)], expected, 1e-3)
                      << height << "x" << width << " at " << y << "," << x << "," << c;
                }
          }
      }
}

TEST(Image, NormalisesAndOrdersChannels) {
  const Picture from = picture(30, 30);
  ImageOptions options{.height = 12, .width = 17, .dtype = DType::F32};
  const std::vector<float> plain = read<float>(png(from), options);
  options.scale = 1 / 255.0F;
  options.mean = {0.1F, 0.2F, 0.3F};
  options.stddev = {0.5F, 0.6F, 0.7F};
  options.channels_first = true;
  const std::vector<float> normal = read<float>(png(from), options);
  EXPECT_THAT(ImageReader::field("x", options).shape, ::testing::ElementsAre(3, 12, 17));
  for (size_t i = 0; i < 12 * 17; ++i)
    for (size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(normal[c * 12 * 17 + i], (plain[3 * i + c] / 255 - options.mean[c]) / options.stddev[c], 1e-5);
  ImageOptions bytes{.height = 12, .width = 17, .channels_first = true};
  const std::vector<uint8_t> rounded = read<uint8_t>(png(from), bytes);
  for (size_t i = 0; i < 12 * 17; ++i)
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(rounded[c * 12 * 17 + i], plain[3 * i + c], 0.501);
}

TEST(Image, CropsTheCentre) {
  const Picture from = picture(10, 21);
  ImageOptions options = as_it_is(from);
  options.central_crop = 0.5;
  options.height = 6;  // 10 - 2 * floor(2.5)
  options.width = 11;
  const std::vector<uint8_t> values = read<uint8_t>(png(from), options);
  EXPECT_EQ(values[0], from.at(2, 5, 0));
  EXPECT_EQ(values.back(), from.at(7, 15, 2));
}

TEST(Image, ShrinkingInTheDecoderStaysCloseToTheWhole) {
  Picture smooth = picture(700, 900);
  for (size_t i = 0; i < smooth.pixels.size(); ++i) smooth.pixels[i] = uint8_t(i / 3 % 900 * 255 / 900);
  const std::string file = jpeg(smooth);
  ImageOptions options{.height = 80, .width = 100, .resize = ResizeMethod::Area, .dtype = DType::F32};
  const std::vector<float> shrunk = read<float>(file, options);
  options.shrinks_in_decoder = false;
  const std::vector<float> whole = read<float>(file, options);
  EXPECT_NE(shrunk, whole);
  double difference = 0;
  for (size_t i = 0; i < whole.size(); ++i) difference += std::abs(whole[i] - shrunk[i]);
  EXPECT_LT(difference / double(whole.size()), 1.5);
}

TEST(Image, ReadsPixelsInMemory) {
  const Picture from = picture(33, 44);
  const ImageOptions options{.height = 20, .width = 20};
  std::vector<uint8_t> values(20 * 20 * 3);
  ImageReader(options).read_pixels(from.pixels.data(), {33, 44}, "pixels", reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(values, read<uint8_t>(png(from), options));
}

// Measured by the allocator's own count of all that decoding takes.
TEST(Image, TakesNoMoreMemoryThanItSays) {
  struct Case {
    const char* name;
    std::string file;
  };
  const Picture wide = picture(64, 20'000);
  for (const Case& one : {Case{"baseline", jpeg(wide)},
                          {"progressive", jpeg(picture(900, 700), true)},
                          {"png", png(wide)},
                          {"interlaced", png(picture(500, 700), true)},
                          {"inks", jpeg({40, 9000, 4, std::vector<uint8_t>(40 * 9000 * 4, 9)})}}) {
    // Looks for the least image_bytes with which the file is read; decoding takes no more than these.
    Bytes least = MiB / 8;
    for (;; least += MiB / 8) {
      ASSERT_LT(least, 16 * MiB) << one.name;
      const ImageOptions options{.image_bytes = least};
      std::vector<std::byte> into(static_cast<size_t>(ImageReader::field("", options).bytes()));
      const auto held = [] {
        const auto facts = ::mallinfo2();
        return static_cast<Bytes>(facts.uordblks + facts.hblkhd);
      };
      const Bytes before = held();
      ImageReader reader(options);
      try {
        reader.read(bytes_of(one.file), "image", into.data());
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("raise image_bytes")) << one.name;
        continue;
      }
      EXPECT_LE(held() - before, ImageReader::bytes(options)) << one.name;
      break;
    }
  }
}

std::string refused(const std::string& file, const ImageOptions& options = {.height = 8, .width = 8}) {
  return testing::refusal([&] { read<uint8_t>(file, options); });
}

TEST(BadImage, CutOffAnywhere) {
  for (const std::string& file :
       {jpeg(picture(40, 40)), jpeg(picture(40, 40), true), png(picture(40, 40)), png(picture(40, 40), true)})
    for (size_t cut = 0; cut < file.size(); cut += 1 + cut / 40)
      EXPECT_THAT(refused(file.substr(0, cut)), HasSubstr("image: at byte")) << cut;
}

TEST(BadImage, Damaged) {
  std::string file = png(picture(40, 40));
  file[file.size() / 2] ^= 0x10;
  EXPECT_THAT(refused(file), HasSubstr("damaged PNG"));
  file = jpeg(picture(200, 200));
  const size_t middle = file.size() / 2;
  file.replace(middle, 2, "\xff\xd9");  // the end of the image, too early
  EXPECT_THAT(refused(file), HasSubstr("damaged JPEG"));
  EXPECT_THAT(refused("GIF89a and more"), HasSubstr("this is neither JPEG nor PNG"));
  EXPECT_THAT(refused(""), HasSubstr("the image is empty"));
}

TEST(BadImage, DecompressionBomb) {
  std::string file = png(picture(4, 4));
  const std::string sides = testing::big_endian<uint32_t>({100'000, 100'000});
  file.replace(16, 8, sides);
  uint32_t sum = static_cast<uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17));
  file.replace(29, 4, testing::big_endian<uint32_t>({sum}));
  EXPECT_THAT(refused(file), HasSubstr("100000 x 100000 pixels are more than the 178956970 that are allowed"));
  EXPECT_THAT(refused(jpeg(picture(100, 100)), {.most_pixels = 9999}), HasSubstr("decompression bomb"));
  EXPECT_THAT(refused(jpeg(picture(1000, 1000), true), {.image_bytes = MiB}), HasSubstr("raise image_bytes"));
}

TEST(BadImage, AnotherSizeWithoutResizing) {
  EXPECT_THAT(refused(png(picture(9, 8)), {.height = 8, .width = 8, .resize = ResizeMethod::None}),
              HasSubstr("the image is 8 x 9, but 8 x 8 is wanted"));
  EXPECT_THAT(testing::refusal([] {
                read<uint8_t>(png(picture(9, 8)), {}, {CropBox{0, 0, 10, 8}, false});
              }),
              HasSubstr("lies outside the image of 8 x 9"));
}

TEST(BadImage, TheNextOneIsReadAsIfNothingHadBeen) {
  const ImageOptions options{.height = 8, .width = 8};
  const std::string good = jpeg(picture(40, 40)), other = png(picture(40, 40));
  ImageReader reader(options);
  std::vector<uint8_t> values(8 * 8 * 3);
  for (const std::string& file : {good, other}) {
    EXPECT_THAT(testing::refusal([&] {
                  reader.read(bytes_of(file.substr(0, file.size() / 2)), "a",
                              reinterpret_cast<std::byte*>(values.data()));
                }),
                HasSubstr("a: at byte"));
    reader.read(bytes_of(file), "b", reinterpret_cast<std::byte*>(values.data()));
    EXPECT_EQ(values, read<uint8_t>(file, options));
  }
}

TEST(BadImage, OptionsThatMakeNoSense) {
  const auto misused = [](const ImageOptions& options) {
    return testing::refusal([&] { ImageReader reader(options); }, ErrorKind::Usage);
  };
  EXPECT_THAT(misused({.height = 0}), HasSubstr("a size of 224 x 0"));
  EXPECT_THAT(misused({.channels = 4}), HasSubstr("4 channels"));
  EXPECT_THAT(misused({.central_crop = 1.5}), HasSubstr("central crop"));
  EXPECT_THAT(misused({.dtype = DType::I32}), HasSubstr("give u8 or f32"));
  EXPECT_THAT(misused({.mean = {1}}), HasSubstr("needs dtype f32"));
  EXPECT_THAT(misused({.dtype = DType::F32, .stddev = {1, 0, 1}}), HasSubstr("a deviation of 0"));
  EXPECT_THAT(misused({.dtype = DType::F32, .mean = {1, 2}}), HasSubstr("2 numbers to normalise 3 channels"));
}

}  // namespace
}  // namespace plimsoll::input
