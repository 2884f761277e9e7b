#include "ops/updates/update_samples.h"

#include "kernels/update.h"

namespace plimsoll::ops {
namespace {

struct Form {
  const char* name;
  bool is_sparse = false;
  bool has_factor = false;
  DType state = DType::F32;
  std::vector<std::pair<std::string_view, double>> more = {};
};

}  // namespace

std::vector<Sample> update_samples(std::string_view name, size_t states, const Attrs& settings, double low,
                                   double high) {
  const std::vector<Form> forms{
      {.name = "plain"},
      {.name = "all settings",
       .has_factor = true,
       .more = {{"weight_decay", 0.01}, {"coupled_decay", 0.1}, {"rate_factor", 0.5}, {"clip_value", 0.5}}},
      {.name = "rows", .is_sparse = true, .has_factor = true},
      {.name = "half state", .state = DType::BF16},
      {.name = "half state, rows", .is_sparse = true, .state = DType::BF16}};
  std::vector<Sample> all;
  for (const Form& form : forms) {
    if (states == 0 && form.state != DType::F32) continue;
    Attrs attrs = settings;
    for (const auto& [key, value] : form.more) attrs.set(key, value);
    all.push_back({form.name,
                   [=, op = std::string(name)](SampleBuilder& s) {
                     std::vector<Tensor> updated{s.variable({5, 7})};
                     for (size_t i = 0; i < states; ++i) updated.push_back(s.variable({5, 7}, low, high, form.state));
                     const Gradient g = form.is_sparse
                                            ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                            : Gradient{s.input({5, 7}), {}};
                     const Tensor rate = s.input({}, 0.1, 0.2);
                     const Tensor step = s.integers({}, 1, 9, DType::I64);
                     kernels::add_update(*find_op(op), updated, g, rate, step,
                                         form.has_factor ? s.input({}, 0.3, 0.9) : Tensor(), attrs, {});
                     return updated;
                   },
                   1e-4, false});
  }
  return all;
}

}  // namespace plimsoll::ops
