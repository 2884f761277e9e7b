// The worker of bench/data: makes the files that all contestants read, and reads them through Dataset.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "base/random.h"
#include "input/files.h"
#include "input/pictures.h"
#include "input/records.h"

namespace plimsoll {
namespace {

constexpr int64_t kImages = 400, kImageHeight = 375, kImageWidth = 500, kClasses = 8;
constexpr int64_t kRows = 200'000, kColumns = 100;
constexpr int64_t kRecords = 100'000, kRecordFloats = 32;
constexpr int kImageBatch = 32, kRowBatch = 64;
constexpr Bytes kLine = 128 * MiB;  // less than any peer holds

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << content).flush()) throw Error(fmt::format("{}: cannot be written", path));
}

// Soft shapes and some noise, so that the files are about as long as photographs of that size.
testing::Picture photograph(int64_t number) {
  testing::Picture picture{kImageHeight, kImageWidth, 3, {}};
  picture.pixels.reserve(static_cast<size_t>(kImageHeight * kImageWidth * 3));
  for (int64_t y = 0; y < kImageHeight; ++y)
    for (int64_t x = 0; x < kImageWidth; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t shape = (x * (c + 2) + y * (5 - c) + number * 37) / 5 % 256;
        const uint64_t noise = mix_bits(static_cast<uint64_t>((number * kImageHeight + y) * kImageWidth + x)) % 16;
        picture.pixels.push_back(static_cast<uint8_t>(std::abs(shape - 128) + static_cast<int64_t>(noise)));
      }
  return picture;
}

void make_files(const std::string& folder) {
  for (int64_t i = 0; i < kImages; ++i) {
    const std::string place = fmt::format("{}/images/class{}", folder, i % kClasses);
    std::filesystem::create_directories(place);
    write_file(fmt::format("{}/{:04}.jpg", place, i), testing::jpeg(photograph(i)));
  }
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kRows * kColumns; ++i) x.push_back(static_cast<float>(i % 1000));
  for (int64_t i = 0; i < kRows; ++i) y.push_back(i % 10);
  write_file(folder + "/x.npy", testing::npy("'<f4'", fmt::format("({}, {})", kRows, kColumns), testing::raw(x)));
  write_file(folder + "/y.npy", testing::npy("'<i8'", fmt::format("({},)", kRows), testing::raw(y)));
  std::string records;
  for (int64_t i = 0; i < kRecords; ++i) {
    std::vector<float> features(static_cast<size_t>(kRecordFloats), static_cast<float>(i));
    records += testing::tf_record(
        testing::example({{"label", testing::int64_list({i % 10})}, {"x", testing::float_list(features)}}));
  }
  write_file(folder + "/records.tfrecord", records);
}

// Calls `epoch`, which returns its elements, once before and then until the seconds are over.
void measure(double seconds, const std::function<int64_t()>& epoch) {
  epoch();
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t clock = std::clock();  // of the processors: other work does not count
  int64_t elements = 0;
  double passed = 0;
  while (passed < seconds) {
    elements += epoch();
    passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double processor_s = static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC;
  fmt::print("{{\"elements_per_s\": {:.1f}, \"processor_us\": {:.2f}, \"peak_bytes\": {}}}\n",
             static_cast<double>(elements) / passed, processor_s * 1e6 / static_cast<double>(elements),
             peak_resident_bytes());
}

void measure(const Dataset& dataset, double seconds) {
  MemoryLine line(kLine);
  Iteration iteration = dataset.on(line, kLine);
  uint64_t epoch = 0;
  measure(seconds, [&] {
    iteration.start_epoch(epoch++);
    int64_t elements = 0;
    for (const ElementView& batch : iteration) elements += batch.dims(0)[0];
    return elements;
  });
}

// What libjpeg-turbo alone decodes, each thread its share of the files.
void measure_bare_decoding(const std::string& folder, int threads, double seconds) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/images")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  measure(seconds, [&] {
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        for (size_t i = static_cast<size_t>(t); i < files.size(); i += static_cast<size_t>(threads))
          testing::decoded(files[i]);
      });
    for (std::thread& worker : workers) worker.join();
    return static_cast<int64_t>(files.size());
  });
}

ImageOptions normalised() {
  return {
      .dtype = DType::F32, .scale = 1 / 255.0F, .mean = {0.485F, 0.456F, 0.406F}, .stddev = {0.229F, 0.224F, 0.225F}};
}

void run(const std::string& what, const std::string& folder, int threads, double seconds) {
  if (what == "make") return make_files(folder);
  if (what == "bare") return measure_bare_decoding(folder, threads, seconds);
  if (what == "images")
    return measure(Dataset::images(folder + "/images", normalised(), threads).shuffle().batch(kImageBatch).prefetch(2),
                   seconds);
  if (what == "rows")
    return measure(Dataset::files(folder + "/x.npy", folder + "/y.npy").shuffle().batch(kRowBatch).prefetch(2),
                   seconds);
  const std::vector<TfFeature> features = {{.name = "label", .dtype = DType::I64},
                                           {.name = "x", .shape = {kRecordFloats}}};
  measure(Dataset::tfrecord({folder + "/records.tfrecord"}, features, threads).batch(kRowBatch).prefetch(2), seconds);
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** words) {
  CLI::App app("Reads the files of bench/data through Dataset");
  std::string what, folder;
  int threads = 2;
  double seconds = 3;
  app.add_option("what", what)->required()->check(CLI::IsMember({"make", "bare", "images", "rows", "records"}));
  app.add_option("folder", folder)->required();
  app.add_option("--threads", threads);
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, count, words);
  try {
    plimsoll::run(what, folder, threads, seconds);
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "bench_data: {}\n", error.what());
    return error.exit_code();
  }
}
