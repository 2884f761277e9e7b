// Trains from chunks of 10,000 rows of a 1,000,000 x 100 array of 64-bit numbers, 800 MB on disk, in 48 MiB.
//
//   02_chunks [ROWS]
#include <cmath>
#include <fstream>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kColumns = 100, kChunk = 10'000;

// The header of an npy file of the first version: padded so that the numbers start at a multiple of 64 bytes.
void write_header(std::ofstream& file, const std::string& shape) {
  std::string text = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + shape + "), }";
  text.resize((10 + text.size() + 64) / 64 * 64 - 10, ' ');
  text.back() = '\n';
  file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(text.size() % 256) << static_cast<char>(text.size() / 256)
       << text;
}

// Rows of numbers in [0, 1), and whether the first half of a row adds up to more than the second.
void make_files(int64_t rows, const std::string& x_path, const std::string& y_path) {
  std::ofstream x(x_path, std::ios::binary), y(y_path, std::ios::binary);
  write_header(x, std::to_string(rows) + ", " + std::to_string(kColumns));
  write_header(y, std::to_string(rows) + ",");
  std::vector<double> row(kColumns);
  uint32_t bits = 1;
  for (int64_t r = 0; r < rows; ++r) {
    double difference = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      bits = bits * 1664525 + 1013904223;
      row[static_cast<size_t>(c)] = bits * 0x1p-32;
      difference += c < kColumns / 2 ? row[static_cast<size_t>(c)] : -row[static_cast<size_t>(c)];
    }
    const double label = difference > 0 ? 1 : 0;
    x.write(reinterpret_cast<const char*>(row.data()), kColumns * 8);
    y.write(reinterpret_cast<const char*>(&label), 8);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  MemoryLine line = MemoryLine::process("48MiB");
  const example::Folder folder;
  make_files(count, folder / "x.npy", folder / "y.npy");

  Dataset chunks = Dataset::files(folder / "x.npy", folder / "y.npy").shuffle().batch(kChunk).prefetch(1);
  Iteration batches = chunks.on(line);

  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), kColumns});
  const Tensor y = graph.placeholder<float>("y", {Dim::batch()});
  const Tensor guess = reshape(layers::dense(layers::dense(x, 32, {.activation = "relu"}), 1), {Dim::batch()});
  const Tensor loss = mean_squared_error(guess, y);
  Session session(graph, line, {.reads_feeds_in_place = true});
  Step train = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::adam(0.01)), .batch = kChunk});

  const example::Stopwatch time;
  float first = 0, last = 0;
  int64_t rows = 0;
  for (const ElementView& batch : batches) {
    last = train({batch.feed(x, "x"), batch.feed(y, "y")})[0].item<float>();
    if (rows == 0) first = last;
    rows += kChunk;
  }
  std::printf("%ld rows in %.1f s, loss %.4f -> %.4f\n", rows, time.seconds(), first, last);
  return last < first / 2 ? example::report(line, session.peak_bytes() + batches.bytes()) : 1;
}
