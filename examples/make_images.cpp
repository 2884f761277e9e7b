// make_images FOLDER COUNT: JPEGs of two kinds, stripes and rings, in a sub-folder each. Data for 04_images.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <jpeglib.h>  // after <cstdio>, whose FILE it uses

namespace {

constexpr int kWidth = 320, kHeight = 240;

unsigned char pixel(bool is_ring, int number, int x, int y, int channel) {
  const double pitch = 8 + number % 7;
  const double place = is_ring ? std::hypot(x - kWidth / 2, y - kHeight / 2) : x + 0.3 * y;
  return static_cast<unsigned char>(128 + 100 * std::sin(place / pitch + channel * (number % 5)));
}

bool write_image(const std::string& path, bool is_ring, int number) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  jpeg_compress_struct image;
  jpeg_error_mgr errors;
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  jpeg_stdio_dest(&image, file);
  image.image_width = kWidth;
  image.image_height = kHeight;
  image.input_components = 3;
  image.in_color_space = JCS_RGB;
  jpeg_set_defaults(&image);
  jpeg_start_compress(&image, TRUE);
  std::vector<unsigned char> row(3 * kWidth);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x)
      for (int c = 0; c < 3; ++c) row[static_cast<size_t>(3 * x + c)] = pixel(is_ring, number, x, y, c);
    unsigned char* rows[] = {row.data()};
    jpeg_write_scanlines(&image, rows, 1);
  }
  jpeg_finish_compress(&image);
  jpeg_destroy_compress(&image);
  return std::fclose(file) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::puts("usage: make_images FOLDER COUNT");
    return 2;
  }
  for (const char* kind : {"rings", "stripes"}) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / kind;
    std::filesystem::create_directories(folder);
    for (int i = 0; i < std::atoi(argv[2]) / 2; ++i)
      if (!write_image(folder / (std::to_string(i) + ".jpg"), std::string(kind) == "rings", i)) {
        std::perror(folder.c_str());
        return 1;
      }
  }
}
