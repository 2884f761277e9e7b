#include "kernels/dnnl_kernel.h"

#include <cassert>
#include <utility>

#include "kernels/thread_count.h"

namespace plimsoll::kernels {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    // The lowered graph owns its primitives; a cache would be memory that nobody planned.
    dnnl::set_primitive_cache_capacity(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

const dnnl::stream& cpu_stream() {
  static const dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

DnnlKernel::DnnlKernel(const dnnl::primitive& primitive, const std::vector<Binding>& bindings) : primitive_(primitive) {
  bound_.reserve(bindings.size());
  for (const Binding& binding : bindings) {
    if (binding.desc.get_size() == 0) continue;
    dnnl::memory memory(binding.desc, cpu_engine(), DNNL_MEMORY_NONE);
    args_.push_back({binding.arg, memory.get()});
    bound_.push_back({std::move(memory), nullptr, binding.from, binding.index, binding.offset_bytes});
  }
}

void DnnlKernel::run(const Args& args) noexcept {
  for (Bound& bound : bound_) {
    const void* base = bound.from == Binding::From::In    ? args.in[bound.index]
                       : bound.from == Binding::From::Out ? args.out[bound.index]
                                                          : args.workspace;
    void* pointer = static_cast<std::byte*>(const_cast<void*>(base)) + bound.offset_bytes;
    if (pointer == bound.last) continue;
    dnnl_memory_set_data_handle(bound.memory.get(), pointer);
    bound.last = pointer;
  }
  [[maybe_unused]] const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), cpu_stream().get(), static_cast<int>(args_.size()), args_.data());
  assert(status == dnnl_success);
}

std::shared_ptr<Kernel> make_pieces(std::vector<std::shared_ptr<Kernel>> pieces) {
  return make_kernel([pieces = std::move(pieces)](const Args& args) {
    const auto count = static_cast<int64_t>(pieces.size());
    if (count == 1) {
      const ThreadCount one(1);
      pieces[0]->run(args);
      return;
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < count; ++i) pieces[static_cast<size_t>(i)]->run(args);
  });
}

std::shared_ptr<Kernel> make_alone(std::shared_ptr<Kernel> kernel) {
  return make_kernel([kernel = std::move(kernel)](const Args& args) {
    const ThreadCount one(1);
    kernel->run(args);
  });
}

std::shared_ptr<Kernel> make_reorder(const ConcreteType& from, const Layout& to, Bytes* workspace_bytes) {
  constexpr int64_t kFewNumbers = 16384;
  const bool is_small = from.count() < kFewNumbers;
  const ThreadCount threads(is_small ? 1 : omp_get_max_threads());
  const dnnl::memory::desc source = from.layout.desc_beside(to, from.dtype, from.dims);
  const dnnl::memory::desc target = to.desc_beside(from.layout, from.dtype, from.dims);
  assert(source.data.ndims == target.data.ndims);
  const dnnl::reorder::primitive_desc pd(cpu_engine(), source, cpu_engine(), target, user_scratchpad());
  *workspace_bytes = static_cast<Bytes>(pd.scratchpad_desc().get_size());
  std::shared_ptr<Kernel> kernel = std::make_shared<DnnlKernel>(
      dnnl::reorder(pd), std::vector<Binding>{{DNNL_ARG_FROM, source, Binding::From::In},
                                              {DNNL_ARG_TO, target, Binding::From::Out},
                                              {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), Binding::From::Workspace}});
  return is_small ? make_alone(std::move(kernel)) : kernel;
}

}  // namespace plimsoll::kernels
