#include "kernel_rivals.h"

#include <dlfcn.h>
#include <omp.h>

#include <cstring>
#include <memory>
#include <unordered_map>

#include "kernels/dnnl_kernel.h"

namespace plimsoll {
namespace {

using namespace kernels;

using Desc = dnnl::memory::desc;

// cblas_sgemm(order, transpose a, transpose b, rows, columns, inner, alpha, a, lda, b, ldb, beta, c, ldc)
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

// Found when the program starts, so that building needs no library.
Sgemm find_sgemm() {
  static const Sgemm found = []() -> Sgemm {
    for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
        if (auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
          set_threads(omp_get_max_threads());
        return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
      }
    return nullptr;
  }();
  return found;
}

Rival dnnl_rival(const dnnl::primitive& primitive, std::vector<std::pair<int, Desc>> operands, const TakeMemory& take) {
  auto args = std::make_shared<std::unordered_map<int, dnnl::memory>>();
  for (const auto& [name, desc] : operands)
    args->emplace(name, dnnl::memory(desc, cpu_engine(), take(static_cast<Bytes>(desc.get_size()))));
  return {"oneDNN", [=] {
            primitive.execute(cpu_stream(), *args);
            dnnl::stream(cpu_stream()).wait();
          }};
}

Rival dnnl_product(const ProductSizes& n, const TakeMemory& take) {
  const auto matrix = [&](int64_t rows, int64_t columns, bool transposed) {
    if (n.count == 1)
      return Desc({rows, columns}, dnnl::memory::data_type::f32,
                  transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1});
    return Desc(
        {n.count, rows, columns}, dnnl::memory::data_type::f32,
        transposed ? dnnl::memory::dims{rows * columns, 1, rows} : dnnl::memory::dims{rows * columns, columns, 1});
  };
  const dnnl::matmul::desc desc(matrix(n.rows, n.inner, n.transpose_a), matrix(n.inner, n.columns, n.transpose_b),
                                matrix(n.rows, n.columns, false));
  const dnnl::matmul::primitive_desc pd(desc, cpu_engine());
  return dnnl_rival(
      dnnl::matmul(pd),
      {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}}, take);
}

Rival openblas_product(const ProductSizes& n, const TakeMemory& take) {
  const auto matrix = [&](int64_t rows, int64_t columns) { return reinterpret_cast<float*>(take(rows * columns * 4)); };
  const float* a = matrix(n.rows, n.inner);
  const float* b = matrix(n.inner, n.columns);
  float* c = matrix(n.rows, n.columns);
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  return {"OpenBLAS", [=] {
            find_sgemm()(kRowMajor, n.transpose_a ? kTransposed : kPlain, n.transpose_b ? kTransposed : kPlain,
                         static_cast<int>(n.rows), static_cast<int>(n.columns), static_cast<int>(n.inner), 1, a,
                         static_cast<int>(n.transpose_a ? n.rows : n.inner), b,
                         static_cast<int>(n.transpose_b ? n.inner : n.columns), 0, c, static_cast<int>(n.columns));
          }};
}

Rival dnnl_convolution(const KernelRow& row, const TakeMemory& take) {
  const ConvolutionSizes& n = row.convolution;
  Dims kernel_dims = n.kernel;
  if (n.window.groups > 1) {
    kernel_dims[0] /= n.window.groups;
    kernel_dims.insert(0, n.window.groups);
  }
  const Desc x = any_desc(DType::F32, n.x), y = any_desc(DType::F32, n.y), kernel = any_desc(DType::F32, kernel_dims);
  const dnnl::memory::dims strides(n.window.strides.begin(), n.window.strides.end());
  const dnnl::memory::dims dilations{n.window.dilations[0] - 1, n.window.dilations[1] - 1};
  const dnnl::memory::dims begin{n.window.pads[0], n.window.pads[1]}, end{n.window.pads[2], n.window.pads[3]};
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_auto;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kAlgorithm, x, kernel, y, strides, dilations, begin, end}, cpu_engine());
  if (row.limit == Limit::Forward)
    return dnnl_rival(dnnl::convolution_forward(forward),
                      {{DNNL_ARG_SRC, forward.src_desc()},
                       {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                       {DNNL_ARG_DST, forward.dst_desc()}},
                      take);
  if (row.limit == Limit::InputGrad) {
    const dnnl::convolution_backward_data::primitive_desc pd(
        {dnnl::algorithm::convolution_direct, x, kernel, y, strides, dilations, begin, end}, cpu_engine(), forward);
    return dnnl_rival(dnnl::convolution_backward_data(pd),
                      {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                       {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                       {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}},
                      take);
  }
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {dnnl::algorithm::convolution_direct, x, kernel, y, strides, dilations, begin, end}, cpu_engine(), forward);
  return dnnl_rival(dnnl::convolution_backward_weights(pd),
                    {{DNNL_ARG_SRC, pd.src_desc()},
                     {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                     {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}},
                    take);
}

// Half of the bytes read, half written, each thread its own stretch.
Rival plain_copy(const char* name, Bytes bytes, const TakeMemory& take) {
  const Bytes half = std::max<Bytes>(64, bytes / 2);
  const std::byte* from = take(half);
  std::byte* to = take(half);
  return {name, [=] {
#pragma omp parallel
            {
              const Bytes first = half * omp_get_thread_num() / omp_get_num_threads() / 64 * 64;
              const Bytes last = half * (omp_get_thread_num() + 1) / omp_get_num_threads() / 64 * 64;
              std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
            }
          }};
}

}  // namespace

bool has_openblas() { return find_sgemm() != nullptr; }

std::vector<Rival> make_rivals(const KernelRow& row, const TakeMemory& take) {
  switch (row.limit) {
    case Limit::Product: {
      std::vector<Rival> rivals{dnnl_product(row.product, take)};
      if (has_openblas() && row.product.count == 1) rivals.push_back(openblas_product(row.product, take));
      return rivals;
    }
    case Limit::Copy: {
      std::vector<Rival> rivals{plain_copy("copy", static_cast<Bytes>(row.bytes), take),
                                plain_copy("memory", kMemoryBytes, take)};
      rivals[1].share = row.bytes / static_cast<double>(kMemoryBytes);
      return rivals;
    }
    default:
      return {dnnl_convolution(row, take)};
  }
}

}  // namespace plimsoll
