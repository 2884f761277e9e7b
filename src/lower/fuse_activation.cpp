#include <array>
#include <string_view>

#include "lower/fuse.h"

namespace plimsoll::lower {
namespace {

constexpr std::array<std::string_view, 4> kHosts{"matmul", "conv2d", "batch_norm", "batch_norm_inference"};

// The name under which a host knows the activation, or nothing. Only such whose gradient needs the output alone: the
// value before the activation is gone.
std::string_view fused_name(const DraftNode& node) {
  if (node.op->name == "relu" || node.op->name == "sigmoid" || node.op->name == "tanh") return node.op->name;
  if (node.op->name == "clip" && node.attrs->f("low") == 0 && node.attrs->f("high") == 6) return "relu6";
  return {};
}

bool is_host(const DraftNode& node) {
  for (const std::string_view host : kHosts)
    if (node.op->name == host) return !node.attrs->has("activation");
  return false;
}

}  // namespace

void fuse_activation(Draft& draft) {
  const Uses uses(draft);
  for (DraftNode& node : draft.nodes) {
    const std::string_view activation = fused_name(node);
    if (activation.empty()) continue;
    const int at = uses.producer(node.in[0]);
    if (at < 0 || uses.count(node.in[0]) != 1) continue;
    DraftNode& host = draft.nodes[static_cast<size_t>(at)];
    if (host.op == nullptr || !is_host(host) || host.out[0] != node.in[0]) continue;
    Attrs attrs = *host.attrs;
    attrs.set("activation", std::string(activation));
    host.attrs = draft.keep(std::move(attrs));
    host.out[0] = node.out[0];
    node.op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
