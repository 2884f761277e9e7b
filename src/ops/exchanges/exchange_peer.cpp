// exchange_peer: sends values to one rank and receives others from it at once, value by value. The variable `turn` is
// an input so that all exchanges of a step happen in program order, whatever the plan. A rank that
// trains alone receives zeros.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "graph/body.h"
#include "kernels/kernel.h"
#include "kernels/network.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

std::string shape_key(int64_t output) { return fmt::format("shape{}", output); }
std::string dtype_key(int64_t output) { return fmt::format("dtype{}", output); }

void infer(Infer& n) {
  n.expect_inputs(1, 1000);
  const int64_t received = n.attrs.i("received");
  if (n.attrs.i("peer", -1) < 0) n.fail("the rank to exchange with is missing");
  n.out.clear();
  for (int64_t i = 0; i < received; ++i)
    n.out.push_back({static_cast<DType>(n.attrs.i(dtype_key(i))), n.attrs.shape(shape_key(i))});
}

Prepared prepare(const Facts& facts) {
  std::vector<Bytes> sent, received;
  for (const ConcreteType& type : facts.in.subspan(1)) sent.push_back(type.count() * size_of(type.dtype));
  for (const ConcreteType& type : facts.out) received.push_back(type.count() * size_of(type.dtype));
  const auto peer = static_cast<int>(facts.attrs.i("peer"));
  return {.kernel = make_kernel([=](const Args& args) {
            Network* const network = args.state->network;
            for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
              const void* const from = i < sent.size() ? args.in[i + 1] : nullptr;
              void* const to = i < received.size() ? args.out[i] : nullptr;
              if (network == nullptr) {
                if (to != nullptr) std::memset(to, 0, static_cast<size_t>(received[i]));
              } else if (!network->exchange(peer, from, from != nullptr ? sent[i] : 0, to,
                                            to != nullptr ? received[i] : 0)) {
                return;
              }
            }
          })};
}

std::vector<Sample> samples() {
  return {{"alone",
           [](SampleBuilder& s) {
             const Tensor turn = s.variable({1}), x = s.input({Dim::batch(), 5});
             const NodeId node = exchange_peer(turn, 1, {x}, {x.type(), {DType::F32, {3}}});
             const ValueId first = turn.graph().body().node(node).first_output;
             return std::vector{Tensor(turn.graph(), first), Tensor(turn.graph(), first + 1)};
           },
           1e-4, false}};
}

const Op kExchangePeer{.name = "exchange_peer",
                       .infer = infer,
                       .types = {DType::F32, kAnyType},
                       .prepare = prepare,
                       .samples = samples,
                       .traits = {.updates = 0b1, .exchanges = true}};

}  // namespace

NodeId exchange_peer(Tensor turn, int64_t peer, const std::vector<Tensor>& sent,
                     const std::vector<TensorType>& received, Name name) {
  std::vector<Tensor> inputs{turn};
  inputs.insert(inputs.end(), sent.begin(), sent.end());
  Attrs attrs{{"peer", peer}, {"received", static_cast<int64_t>(received.size())}};
  for (size_t i = 0; i < received.size(); ++i) {
    attrs.set(shape_key(static_cast<int64_t>(i)), received[i].shape);
    attrs.set(dtype_key(static_cast<int64_t>(i)), static_cast<int64_t>(received[i].dtype));
  }
  return apply(kExchangePeer, inputs, attrs, name).node();
}

OpList exchange_peer_ops() { return {&kExchangePeer}; }

}  // namespace plimsoll::ops
