// unpack: packed weights as f32. Lowering adds it before operators that do not read weights packed.
#include "ops/unpack.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  expect_packed(n, 0);
  n.out = {{DType::F32, n.attrs.shape("packed_dims")}};
}

Prepared prepare(const Facts& facts) {
  const PackedWeights form = packed_form(facts.attrs);
  return {.kernel = make_kernel(
              [=](const Args& args) { form.unpack(args.input<std::byte>(0), 0, form.rows, args.output<float>(0)); })};
}

std::vector<Sample> samples() {
  return {{"bf16",
           [](SampleBuilder& s) {
             return std::vector{unpack(s.integers({30}, 0, 60, DType::U8), DType::BF16, {3, 5})};
           },
           1e-4, false},
          {"int8",
           [](SampleBuilder& s) {
             const Dims filters{3, 2, 5};
             const Shape bytes = packed_type({DType::I8, filters}).shape;
             return std::vector{unpack(s.integers(bytes, 0, 60, DType::U8), DType::I8, filters)};
           },
           1e-4, false}};
}

const Op kUnpack{.name = "unpack",
                 .infer = infer,
                 .types = {DType::U8},
                 .prepare = prepare,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true}};

}  // namespace

TensorType packed_type(const PackedWeights& form) { return {DType::U8, {form.bytes()}}; }

void set_packed(Attrs& attrs, DType dtype, const Dims& dims) {
  attrs.set("packed", std::string(name_of(dtype)));
  attrs.set("packed_dims", Shape::from(dims));
}

bool has_packed(const Attrs& attrs) { return attrs.has("packed"); }
Dims packed_dims(const Attrs& attrs) { return attrs.dims("packed_dims"); }
PackedWeights packed_form(const Attrs& attrs) { return {parse_dtype(attrs.s("packed")), packed_dims(attrs)}; }

void expect_packed(const Infer& n, size_t input) {
  if (!has_packed(n.attrs)) n.fail("it needs the type and the sizes of what is packed");
  const Dims dims = packed_dims(n.attrs);
  const DType dtype = parse_dtype(n.attrs.s("packed"));
  if ((dtype != DType::BF16 && dtype != DType::I8) || dims.rank() < 2 ||
      std::ranges::any_of(dims, [](int64_t size) { return size < 1; }))
    n.fail(fmt::format("{} {} can't be packed", n.attrs.s("packed"), to_string(dims)));
  static_cast<void>(element_count(n.attrs.shape("packed_dims")));  // throws where it is too large a number
  if (!(n.in[input] == packed_type(packed_form(n.attrs))))
    n.fail(fmt::format("{} does not hold {} {}", to_string(n.in[input]), n.attrs.s("packed"), to_string(dims)));
}

bool reads_packed(const Op& op, const Attrs& attrs, size_t input) {
  if (op.name == "gather") return input == 0;
  // Rows are classes: a tile of them is unpacked at a time.
  return op.name.starts_with("linear_cross_entropy") && input == 1 && attrs.i("transposed") != 0;
}

Tensor unpack(Tensor packed, DType dtype, Dims dims, Name name) {
  Attrs attrs;
  set_packed(attrs, dtype, dims);
  return apply(kUnpack, {packed}, attrs, name);
}

OpList unpack_ops() { return {&kUnpack}; }

}  // namespace plimsoll::ops
