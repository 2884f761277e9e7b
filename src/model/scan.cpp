#include <plimsoll/scan.h>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>

namespace plimsoll {

ScanResult scan_steps(const Tensor& x, std::vector<Tensor> state,
                      const std::function<ScanStep(const std::vector<Tensor>& state, Tensor step)>& function,
                      const Scan& options) {
  const Dim count = x.dim(options.axis);
  if (count.is_batch())
    throw Error(fmt::format("scan: axis {} of {} is the batch, whose samples have no order; name the axis of the steps",
                            options.axis, to_string(x.type())));
  const std::vector<Tensor> steps = unstack(x, options.axis);
  std::vector<Tensor> outputs(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const size_t at = options.reverse ? steps.size() - 1 - i : i;
    ScanStep done = function(state, steps[at]);
    if (done.state.size() != state.size())
      throw Error(fmt::format("scan: step {} gives {} states instead of {}", at, done.state.size(), state.size()));
    for (size_t k = 0; k < state.size(); ++k)
      if (!done.state[k].is_set() || !(done.state[k].type() == state[k].type()))
        throw Error(fmt::format("scan: step {} makes {} of state {}, which is {}", at,
                                done.state[k].is_set() ? to_string(done.state[k].type()) : "nothing", k,
                                to_string(state[k].type())));
    if (done.output.is_set() != (i == 0 ? done.output : outputs[options.reverse ? steps.size() - 1 : 0]).is_set())
      throw Error(fmt::format("scan: step {} has an output and others have none", at));
    state = std::move(done.state);
    outputs[at] = done.output;
  }
  ScanResult result{std::move(state)};
  if (outputs.front().is_set()) {
    const int axis = options.axis < 0 ? options.axis + x.rank() : options.axis;
    result.outputs = stack(outputs, axis);
  }
  return result;
}

Tensor scan(const Tensor& x, const Tensor& state, const std::function<Tensor(Tensor state, Tensor step)>& function,
            const Scan& options) {
  const auto step = [&](const std::vector<Tensor>& before, Tensor part) {
    return ScanStep{{function(before[0], part)}};
  };
  return scan_steps(x, {state}, step, options).state[0];
}

}  // namespace plimsoll
