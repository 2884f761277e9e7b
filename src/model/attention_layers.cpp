#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"

namespace plimsoll::layers {

Tensor multi_head_attention(Tensor x, int64_t heads, const Attention& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const std::string full = name.empty() ? graph.layer_name("multi_head_attention") : std::string(name);
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("multi_head_attention '{}': {}", full, why));
  };
  if (x.rank() != 3 || heads < 1 || (options.key_dim == 0 && x.dim(-1).fixed() % heads != 0))
    fail(
        fmt::format("{} can't be split into {} heads; it must be [batch, positions, width] with a width that the heads "
                    "divide",
                    to_string(x.type()), heads));
  const int64_t width = x.dim(-1).fixed();
  const int64_t key_heads = options.key_heads != 0 ? options.key_heads : heads;
  if (key_heads < 1 || heads % key_heads != 0)
    fail(fmt::format("{} heads of queries can't share {} heads of keys", heads, key_heads));
  const Tensor context = options.context.is_set() ? options.context : x;
  if (context.rank() != 3) fail(fmt::format("the context is {} but must have 3 dimensions", to_string(context.type())));
  const int64_t key_dim = options.key_dim != 0 ? options.key_dim : width / heads;
  const int64_t value_dim = options.value_dim != 0 ? options.value_dim : key_dim;
  if (key_dim < 1 || value_dim < 1) fail(fmt::format("heads can't be {} and {} wide", key_dim, value_dim));
  const Scope scope(graph, full);
  const auto project = [&](const Tensor& from, int64_t count, int64_t each, Name to) {
    const Tensor all = dense(from, count * each, {.use_bias = options.use_bias, .kernel = options.kernel}, to);
    return reshape(all, {from.dim(0), from.dim(1), count, each});
  };
  Tensor q = project(x, heads, key_dim, "query");
  Tensor k = project(context, key_heads, key_dim, "key");
  const Tensor v = project(context, key_heads, value_dim, "value");
  if (options.rope != 0) {
    q = rope(q, {}, options.rope, 0, false, true);
    k = rope(k, {}, options.rope, 0, false, true);
  }
  const Tensor mixed = attention(q, k, v, options.mask, options.causal, 0, true, options.bias, options.window,
                                 options.cap, options.alibi, options.sequences);
  return dense(reshape(mixed, {x.dim(0), x.dim(1), heads * value_dim}), options.units != 0 ? options.units : width,
               {.use_bias = options.use_bias, .kernel = options.kernel}, "output");
}

Layer multi_head_attention(int64_t heads, const Attention& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return multi_head_attention(x, heads, options, label); };
}

}  // namespace plimsoll::layers
