// Encodes a file: encode TOKENIZER TEXT IDS [REPEATS]. Writes ids as i32 and prints one line of JSON: seconds of the
// processor, bytes held.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <vector>

#include <plimsoll/error.h>
#include <plimsoll/tokenizer.h>

int main(int argc, char** argv) {
  // Of the processor, so that other processes on the machine do not count.
  const auto seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  if (argc < 4) return std::fprintf(stderr, "encode TOKENIZER TEXT IDS [REPEATS]\n"), 2;
  try {
    const double before_open = seconds();
    plimsoll::Tokenizer tokenizer = plimsoll::Tokenizer::open(argv[1]);
    const double open_seconds = seconds() - before_open;
    std::ifstream file(argv[2], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::vector<int32_t> ids;
    double best_seconds = 1e30;
    for (int i = 0; i < (argc > 4 ? std::atoi(argv[4]) : 1); ++i) {
      const double before = seconds();
      ids = tokenizer.encode(text);
      best_seconds = std::min(best_seconds, seconds() - before);
    }
    std::ofstream(argv[3], std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(int32_t)));
    const double before_decode = seconds();
    const std::string back = tokenizer.decode(ids);
    std::printf(
        "{\"ids\": %zu, \"open_seconds\": %.3f, \"encode_seconds\": %.4f, \"decode_seconds\": %.3f, "
        "\"is_same_text\": %s, \"bytes\": %lld, \"scratch_bytes\": %lld, \"can_cut\": %s, \"repaired\": %lld}\n",
        ids.size(), open_seconds, best_seconds, seconds() - before_decode, back == text ? "true" : "false",
        static_cast<long long>(tokenizer.bytes()), static_cast<long long>(tokenizer.scratch_bytes()),
        tokenizer.can_cut() ? "true" : "false", static_cast<long long>(tokenizer.repaired()));
  } catch (const plimsoll::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
