#include "kernels/guard.h"

namespace plimsoll::kernels {

Prepared prepare_guarded(const Op& op, const Facts& facts) {
  if (facts.attrs.i("guarded") == 0) return op.prepare(facts);
  const size_t guard = facts.in.size() - 1;
  Facts inner = facts;
  inner.in = facts.in.first(guard);
  Prepared prepared = op.prepare(inner);
  prepared.kernel = make_kernel([guard, update = std::move(prepared.kernel)](const Args& args) {
    if (*args.input<float>(guard) != 0) update->run(args);
  });
  if (!prepared.in.empty()) prepared.in.emplace_back();
  return prepared;
}

}  // namespace plimsoll::kernels
