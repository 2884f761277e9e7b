// Runs a oneDNN primitive on the executor's pointers, with its scratchpad in planned memory.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/dnnl_layout.h"
#include "kernels/kernel.h"

namespace plimsoll::kernels {

const dnnl::engine& cpu_engine();
const dnnl::stream& cpu_stream();

// Where an argument of a primitive comes from.
struct Binding {
  enum class From : uint8_t { In, Out, Workspace };
  int arg;  // DNNL_ARG_...
  dnnl::memory::desc desc;
  From from;
  int index = 0;           // of the input or output
  Bytes offset_bytes = 0;  // into the input, the output or the workspace
};

class DnnlKernel final : public Kernel {
 public:
  DnnlKernel(const dnnl::primitive& primitive, const std::vector<Binding>& bindings);
  void run(const Args& args) noexcept override;

 private:
  struct Bound {
    dnnl::memory memory;
    void* last = nullptr;  // handles are set only when they change: setting one is not free in oneDNN
    Binding::From from;
    int index;
    Bytes offset_bytes;
  };
  dnnl::primitive primitive_;
  std::vector<Bound> bound_;
  std::vector<dnnl_exec_arg_t> args_;
};

// The scratchpad must be planned memory: every primitive is made with these attributes.
dnnl::primitive_attr user_scratchpad();

// Whether oneDNN computes this by its matrix product, whose sums depend on the number of threads.
template <class PrimitiveDesc>
bool is_by_product(const PrimitiveDesc& pd) {
  return std::string_view(pd.impl_info_str()).find("gemm") != std::string_view::npos;
}

// Pieces of one job that share nothing, each run by one thread.
std::shared_ptr<Kernel> make_pieces(std::vector<std::shared_ptr<Kernel>> pieces);

// One thread runs it: for work that is not worth waking others.
std::shared_ptr<Kernel> make_alone(std::shared_ptr<Kernel> kernel);

// Copies a value from one layout to another.
std::shared_ptr<Kernel> make_reorder(const ConcreteType& from, const Layout& to, Bytes* workspace_bytes);

}  // namespace plimsoll::kernels
