// one_hot: labels as rows of zeros with a single one; a label outside [0, classes) is reported and gives zeros alone.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/joined.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const int64_t classes = n.attrs.i("classes");
  if (classes < 1) n.fail(fmt::format("classes must be at least 1 but is {}", classes));
  Shape out = n.in[0].shape;
  out.push_back(classes);
  n.out = {{DType::F32, out}};
}

template <class T>
std::shared_ptr<Kernel> kernel_for(int64_t count, int64_t classes) {
  return make_kernel([=](const Args& args) {
    const T* labels = args.input<T>(0);
    auto* y = args.output<float>(0);
    FirstBad bad;
    parallel_for(count, std::max<int64_t>(1, 16384 / classes), [&](int64_t first, int64_t last) {
      std::fill(y + first * classes, y + last * classes, 0.0F);
      for (int64_t i = first; i < last; ++i) {
        if (labels[i] >= 0 && labels[i] < classes)
          y[i * classes + labels[i]] = 1;
        else
          bad.found(i);
      }
    });
    bad.report(args, "label", 0, labels, classes);
  });
}

Prepared prepare(const Facts& facts) {
  const int64_t count = facts.in[0].count();
  const int64_t classes = facts.attrs.i("classes");
  return {.kernel = facts.in[0].dtype == DType::I32 ? kernel_for<int32_t>(count, classes)
                                                    : kernel_for<int64_t>(count, classes)};
}

std::vector<Sample> samples() {
  return {{"classes", [](SampleBuilder& s) { return std::vector{one_hot(s.integers({Dim::batch(3)}, 0, 7), 7)}; }, 1e-4,
           false},
          {"some outside",
           [](SampleBuilder& s) {
             return std::vector{one_hot(s.integers({Dim::batch(), 5}, -2, 5, DType::I64), 3)};
           },
           1e-4, false},
          {"middle axis",
           [](SampleBuilder& s) {
             return std::vector{one_hot(s.integers({Dim::batch(), 5}, 0, 3), 3, 1)};
           },
           1e-4, false}};
}

const Op kOneHot{.name = "one_hot",
                 .storable = true,
                 .infer = infer,
                 .types = {{DType::I32, DType::I64}},
                 .prepare = prepare,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .onnx = "OneHot"};

}  // namespace

Tensor one_hot(Tensor labels, int64_t classes, int axis, Name name) {
  const Tensor last = apply(kOneHot, {labels}, {{"classes", classes}}, name);
  const int at = resolve_axis("one_hot", name, axis, last.type());
  if (at == last.rank() - 1) return last;
  Dims order;
  for (int i = 0; i < labels.rank(); ++i) order.push_back(i);
  order.insert(at, labels.rank());
  return transpose(last, order);
}

OpList one_hot_ops() { return {&kOneHot}; }

}  // namespace plimsoll::ops
