#include "kernels/update.h"

#include <fmt/format.h>

#include "graph/apply.h"

namespace plimsoll::kernels {

namespace {

// The shape of a state, or of a gradient that ranks share.
Shape state_shape(const Shape& variable, const Attrs& attrs) {
  const int64_t slices = attrs.i("slices");
  return slices > 0 ? Shape{slice_length(element_count(variable).fixed(), slices)} : variable;
}

}  // namespace

UpdateInputs update_inputs(const Attrs& attrs, size_t updated, bool has_step) {
  return {updated, has_step, attrs.i("sparse") != 0, attrs.i("factor") != 0};
}

void infer_update(Infer& n, size_t updated, bool has_step) {
  const UpdateInputs inputs = update_inputs(n.attrs, updated, has_step);
  n.expect_inputs(inputs.count(), inputs.count());
  const TensorType& variable = n.in[0];
  const Shape state = state_shape(variable.shape, n.attrs);
  for (size_t i = 1; i < updated; ++i)
    if ((n.in[i].dtype != DType::F32 && n.in[i].dtype != DType::BF16) || n.in[i].dtype != n.in[1].dtype ||
        !(n.in[i].shape == state))
      n.fail(fmt::format("the variable is {} but its state {} is {}; states are all f32 or all bf16",
                         to_string(variable), i, to_string(n.in[i])));
  infer_gradient(n, inputs);
}

void expect_gradient(const Infer& n, const UpdateInputs& inputs) {
  const TensorType& variable = n.in[0];
  const TensorType& gradient = n.in[inputs.gradient()];
  if (inputs.is_sparse) {
    const TensorType& rows = n.in[inputs.rows()];
    if (variable.shape.rank() != 2 || gradient.shape.rank() != 2 || !(gradient.shape[1] == variable.shape[1]) ||
        gradient.dtype != DType::F32 || rows.dtype != DType::I32 || !(rows.shape == Shape{gradient.shape[0]}))
      n.fail(fmt::format("rows {} with values {} are no gradient of {}", to_string(rows), to_string(gradient),
                         to_string(variable)));
  } else if (!(gradient == variable) && !(gradient == TensorType{DType::F32, state_shape(variable.shape, n.attrs)})) {
    n.fail(fmt::format("the variable is {} but its gradient is {}", to_string(variable), to_string(gradient)));
  }
}

void infer_gradient(Infer& n, const UpdateInputs& inputs) {
  expect_gradient(n, inputs);
  const TensorType scalar{DType::F32, {}};
  if (!(n.in[inputs.rate()] == scalar)) n.fail("the learning rate must be f32[]");
  if (inputs.has_factor && !(n.in[inputs.factor()] == scalar)) n.fail("the factor of the gradient must be f32[]");
  if (inputs.has_step && !(n.in[inputs.step()] == TensorType{DType::I64, {}})) n.fail("the step counter must be i64[]");
  n.out = {};
}

NodeId add_update(const Op& op, const std::vector<Tensor>& updated, const Gradient& gradient, Tensor rate, Tensor step,
                  Tensor factor, Attrs settings, Name name) {
  std::vector<Tensor> inputs = updated;
  inputs.push_back(gradient.value);
  inputs.push_back(rate);
  if (step.is_set()) inputs.push_back(step);
  if (gradient.is_sparse()) {
    inputs.push_back(gradient.rows);
    settings.set("sparse", int64_t{1});
  }
  if (factor.is_set()) {
    inputs.push_back(factor);
    settings.set("factor", int64_t{1});
  }
  return apply(op, inputs, settings, name).node();
}

Update::Update(const Facts& facts, size_t updated, bool has_step)
    : inputs(update_inputs(facts.attrs, updated, has_step)), layouts(facts.in.size()), decay(facts.attrs) {
  const ConcreteType& variable = facts.in[0];
  const ConcreteType& gradient = facts.in[inputs.gradient()];
  if (inputs.is_sparse) {
    table_rows = variable.dims[0];
    width = variable.dims[1];
    ids = gradient.dims[0];
    count = variable.count();
    workspace_bytes = row_sort_bytes(ids);
    return;
  }
  count = variable.count();
  if (const int64_t slices = facts.attrs.i("slices"); slices > 0) {  // slices are cut row-major: see gather_ranks
    slice = slice_length(count, slices);
    has_gradient_slice = !(gradient.dims == variable.dims);
    return;
  }
  // All in the order that the variable has; padding is zero in all of them and stays so.
  const Layout layout = variable.is_open ? gradient.layout : variable.layout;
  for (size_t i = 0; i <= updated; ++i) layouts[i] = layout.retyped(DType::F32, facts.in[i].dtype, variable.dims);
  count = layout.bytes(DType::F32, variable.dims) / static_cast<Bytes>(sizeof(float));
}

}  // namespace plimsoll::kernels
