// The kernels that bench/kernels measures: those that the cases of bench/compare are lowered to, and some operators
// that no case has.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <plimsoll/types.h>
#include "kernels/convolution.h"
#include "lower/lower.h"

namespace plimsoll {

using namespace kernels;
using namespace lower;

// c [rows, columns] = a [rows, inner] b [inner, columns], `count` times beside each other.
struct ProductSizes {
  int64_t rows = 0, columns = 0, inner = 0, count = 1;
  bool transpose_a = false, transpose_b = false;
  double flops() const;
};

// What a kernel is measured against.
enum class Limit { Product, Forward, InputGrad, KernelGrad, Copy };

struct RowOperand {
  Bytes bytes = 0;
  DType dtype = DType::F32;
  int64_t below = 1;                                 // whole numbers are less than this
  const std::vector<std::byte>* constant = nullptr;  // these bytes instead of random numbers
};

struct KernelRow {
  std::string op, shape;
  std::shared_ptr<Kernel> kernel;
  std::vector<RowOperand> in, out;
  Bytes workspace_bytes = 0;
  Limit limit = Limit::Copy;
  ProductSizes product;
  double products = 1;  // of that size: an operator may do several
  ConvolutionSizes convolution;
  double bytes = 0;                      // that must move
  double predicted_ns = 0;               // of one run
  std::map<std::string, int> runs = {};  // in a step of each case
};

// A case lowered; keeps alive what its rows point into.
struct LoweredCase {
  std::string name;
  std::unique_ptr<Graph> graph;
  Program program;
  double predicted_ns = 0;
};

struct KernelRows {
  std::vector<std::unique_ptr<LoweredCase>> cases;
  std::vector<KernelRow> rows;
};

// Kernels that are predicted to take at least this share of the step of some case.
KernelRows collect_kernel_rows(double least_share);

}  // namespace plimsoll
