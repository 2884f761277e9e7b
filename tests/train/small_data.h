// A few samples in npy files, as a model of 4 x 4 images and 3 classes takes them.
#pragma once

#include <cmath>
#include <vector>

#include "input/files.h"
#include "train/inputs.h"

namespace plimsoll::testing {

constexpr int64_t kPixels = 16;

inline train::Spec small_spec() {
  train::Spec spec;
  spec.model = "mlp";
  spec.model_options.image_size = 4;
  spec.model_options.channels = 1;
  spec.model_options.classes = 3;
  spec.model_options.width = 8;
  spec.batch = 8;
  spec.line = GiB;
  return spec;
}

class SmallData {
 public:
  SmallData(int64_t train_samples, int64_t test_samples) {
    write("train", train_samples);
    write("test", test_samples);
  }
  const std::string& folder() const { return directory_.path(); }
  // small_spec() with this data.
  train::Spec spec() const { return with_data(small_spec()); }
  train::Spec with_data(train::Spec spec) const {
    spec.data = input::open_data({.path = folder()}, find_model(spec.model, spec.model_options));
    return spec;
  }

 private:
  void write(const std::string& half, int64_t samples) const {
    std::vector<float> x(static_cast<size_t>(samples * kPixels));
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 97));
    std::vector<int32_t> y(static_cast<size_t>(samples));
    for (size_t i = 0; i < y.size(); ++i) y[i] = x[i * kPixels] > 0.3F ? 2 : x[i * kPixels] > -0.3F ? 1 : 0;
    const std::string count = std::to_string(samples);
    directory_.write("x_" + half + ".npy", npy("'<f4'", "(" + count + ", 1, 4, 4)", raw(x)));
    directory_.write("y_" + half + ".npy", npy("'<i4'", "(" + count + ",)", raw(y)));
  }
  TemporaryDirectory directory_;
};

}  // namespace plimsoll::testing
