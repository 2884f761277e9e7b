#include "model/synchronised_norms.h"

#include <algorithm>

#include "kernels/moments_over_ranks.h"
#include "ops/ops.h"

namespace plimsoll::model {

bool is_synchronised(const graph::Op& op, const graph::Attrs& settings, SynchronisedNorms which) {
  return op.name == "batch_norm" && (which == SynchronisedNorms::All || settings.i("synchronised", 0) != 0);
}

int64_t norm_buffer(const TracedPass& pass, SynchronisedNorms which) {
  const graph::Body& body = pass.graph->body();
  int64_t elements = 0;
  for (const graph::Node& node : body.nodes()) {
    if (!is_synchronised(*node.op, body.attrs(node), which)) continue;
    const int64_t channels = body.value(body.inputs(node)[0]).type.shape[1].fixed();
    elements = std::max(elements, 2 * kernels::moments_length(channels));
  }
  return elements;
}

std::vector<Tensor> synchronise(const ReplayedNode& node, Tensor turn) {
  return ops::batch_norm_over_ranks(node.inputs[0], node.inputs[1], node.inputs[2], turn, node.attrs.f("epsilon", 1e-3),
                                    node.name);
}

}  // namespace plimsoll::model
