#include <algorithm>
#include <string>
#include <vector>

#include "lower/fuse.h"
#include "ops/conv2d.h"

namespace plimsoll::lower {
namespace {

// The activation whose gradient the node is, when that only asks where the output lies; else empty.
std::string_view masked_activation(const DraftNode& node) {
  const graph::Fusion& fusion = node.op->fusion;
  if (fusion.passes == nullptr || fusion.gradient_of == nullptr) return {};
  const graph::Fusion& forward = fusion.gradient_of->fusion;
  return forward.activation == nullptr ? std::string_view() : forward.activation(*node.attrs);
}

// By value: whether a node of the step writes it in place.
std::vector<bool> find_updated(const Draft& draft) {
  std::vector<bool> is_updated(draft.value_count(), false);
  for (const DraftNode& node : draft.nodes)
    for (size_t i = 0; i < node.in.size(); ++i)
      if ((node.op->traits.updates >> i & 1U) != 0) is_updated[static_cast<size_t>(node.in[i])] = true;
  return is_updated;
}

// Neither a bias nor anything else was fused into it.
bool is_plain_product(const DraftNode& node) {
  return node.in.size() == 2 && !node.attrs->has("activation") && !node.attrs->has("residual");
}

// The later of two convolutions adds the result of the earlier one.
void add_residuals(Draft& draft) {
  const Uses uses(draft);
  for (DraftNode& sum : draft.nodes) {
    if (!sum.op->fusion.sums || sum.in.size() != 2 || sum.in[0] == sum.in[1]) continue;
    const int first = uses.producer(sum.in[0]), second = uses.producer(sum.in[1]);
    const size_t at = first > second ? 0 : 1;  // where the later one stands among the inputs
    const ValueId result = sum.in[at], residual = sum.in[1 - at];
    if (std::max(first, second) < 0 || uses.count(result) != 1) continue;
    DraftNode& host = draft.nodes[static_cast<size_t>(std::max(first, second))];
    if (host.op == nullptr || host.attrs->i("normed") == 0 || host.attrs->has("residual") ||
        host.attrs->has("activation") || !(draft.type(result) == draft.type(residual)))
      continue;
    graph::Attrs attrs = *host.attrs;
    attrs.set("residual", int64_t{1});
    host.attrs = draft.keep(std::move(attrs));
    host.in.push_back(residual);
    host.out[0] = sum.out[0];
    sum.op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace

void fuse_norm_forward(Draft& draft) {
  const Uses uses(draft);
  // The convolution that makes a value which nothing else reads; else null.
  const auto host_of = [&](ValueId value) -> DraftNode* {
    const int at = uses.producer(value);
    if (at < 0 || uses.count(value) != 1) return nullptr;
    DraftNode& host = draft.nodes[static_cast<size_t>(at)];
    return host.op != nullptr && host.out[0] == value ? &host : nullptr;
  };
  const std::vector<bool> is_updated = find_updated(draft);
  for (DraftNode& norm : draft.nodes) {
    DraftNode* const host = norm.in.empty() ? nullptr : host_of(norm.in[0]);
    if (host == nullptr || !ops::applies_norm(*host->op, *norm.op) || !is_plain_product(*host) ||
        !norm.attrs->has("epsilon"))
      continue;
    // They are read earlier now: no node may have written them in between.
    if (std::any_of(norm.in.begin() + 1, norm.in.end(), [&](ValueId value) {
          return uses.producer(value) > host - draft.nodes.data() || is_updated[static_cast<size_t>(value)];
        }))
      continue;
    graph::Attrs attrs = *host->attrs;
    attrs.set("normed", int64_t{1});
    attrs.set("epsilon", norm.attrs->f("epsilon"));
    host->attrs = draft.keep(std::move(attrs));
    host->in.insert(host->in.end(), norm.in.begin() + 1, norm.in.end());
    host->out[0] = norm.out[0];
    norm.op = nullptr;
  }
  remove_dead(draft);
  add_residuals(draft);
}

void fuse_norm_backward(Draft& draft) {
  const Uses uses(draft);
  const auto node_of = [&](ValueId value) {
    const int at = uses.producer(value);
    return at < 0 ? nullptr : &draft.nodes[static_cast<size_t>(at)];
  };
  for (DraftNode& grad : draft.nodes) {
    const auto& through = grad.op->fusion.through_activation;
    if (!through || grad.attrs->has("activation")) continue;
    ValueId& dy = grad.in[static_cast<size_t>(through->dy)];
    DraftNode* mask = node_of(dy);
    if (mask == nullptr || mask->op == nullptr || uses.count(dy) != 1) continue;
    const std::string activation(masked_activation(*mask));
    if (activation.empty()) continue;
    // The mask is that of the very operator whose gradient this is.
    const DraftNode* norm = node_of(mask->in[1]);
    if (norm == nullptr || norm->op != grad.op->fusion.gradient_of || norm->attrs->s("activation") != activation)
      continue;
    if (norm->in[0] != grad.in[static_cast<size_t>(through->x)]) continue;
    graph::Attrs attrs = *grad.attrs;
    attrs.set("activation", activation);
    grad.attrs = draft.keep(std::move(attrs));
    dy = mask->in[0];
    grad.in.push_back(norm->in[static_cast<size_t>(through->more)]);
    mask->op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
