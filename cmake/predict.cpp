// plimsoll_predict MODEL [MEMORY]: answers of a stored model for rows of numbers on standard input, one row for each
// sample.
#include <cstdio>
#include <exception>
#include <vector>

#include <plimsoll/predictor.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    plimsoll::Predictor net(argv[1], plimsoll::MemoryLine::process(argc > 2 ? argv[2] : "80%"));
    std::vector<float> sample(static_cast<size_t>(net.input_elements()));
    for (size_t have = 0; std::scanf("%f", &sample[have]) == 1;) {
      if (++have < sample.size()) continue;
      have = 0;
      for (const float answer : net.predict(sample).floats()) std::printf("%.9g ", static_cast<double>(answer));
      std::printf("\n");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll_predict: %s\n", error.what());
    return 1;
  }
  return 0;
}
