// Proofs of the claims that an operator's traits make: each returns why a claim does not hold, or nothing.
#pragma once

#include <string>

#include "ops/evaluate.h"

namespace plimsoll::testing {

// Runs one node on samples [first, first + count) of a batch, from row-major contents of the whole inputs; gives the
// row-major outputs, then the inputs that the operator updates. `add_into`: outputs of an earlier run that sums go
// into.
std::vector<Contents> run_part(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                               int64_t batch, int64_t first, int64_t count, const kernels::StepState& base,
                               const std::vector<Contents>* add_into = nullptr);

// What the operator claims of the batch, at the types of this node.
BatchRule batch_rule_of(const Graph& graph, const graph::Node& node);

// Changes single elements of each input: only the elements of the results that stand at the same place may change.
std::string why_not_elementwise(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                                int64_t batch, const kernels::StepState& base);

// The bytes of the input under the output's shape: the same number of them, sample by sample unless the node claims to
// mix samples, and the same as a kernel of the operator gives where it has one.
std::string why_not_view(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                         int64_t batch, const kernels::StepState& base);

// What fusing may rely on (graph::Fusion): a gradient that `passes` is dy where y lies between two numbers and zero
// elsewhere; an operator that `sums` gives input 0 + input 1.
std::string why_not_passing(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                            int64_t batch, const kernels::StepState& base);
std::string why_not_sum(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs, int64_t batch,
                        const kernels::StepState& base);

}  // namespace plimsoll::testing
