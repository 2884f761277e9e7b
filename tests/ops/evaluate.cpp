#include "ops/evaluate.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "base/random.h"
#include "kernels/dnnl_kernel.h"
#include "kernels/elementwise.h"
#include "kernels/guard.h"
#include "ops/padding.h"

namespace plimsoll::testing {
namespace {

using namespace kernels;

constexpr auto kPattern = std::byte{0xa5};
constexpr auto kGarbage = std::byte{0xff};  // as a float: not a number

}  // namespace

GuardedBuffer::GuardedBuffer(Bytes bytes) : bytes_(bytes) {
  const Bytes whole = round_up(bytes, kAlignment) + 2 * kGuard;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(whole))));
  std::fill(memory_.get(), memory_.get() + whole, kPattern);
  std::fill(memory_.get() + kGuard, memory_.get() + kGuard + bytes, kGarbage);
}

bool GuardedBuffer::is_intact() const {
  const Bytes whole = round_up(bytes_, kAlignment) + 2 * kGuard;
  for (Bytes i = 0; i < kGuard; ++i)
    if (memory_.get()[i] != kPattern) return false;
  for (Bytes i = kGuard + bytes_; i < whole; ++i)
    if (memory_.get()[i] != kPattern) return false;
  return true;
}

Contents GuardedBuffer::copy() const {
  const auto* begin = static_cast<const std::byte*>(data());
  return {begin, begin + bytes_};
}

Evaluator::Evaluator(const Graph& graph, int64_t batch, int64_t whole_batch, int64_t first_sample)
    : graph_(graph), batch_(batch), whole_batch_(whole_batch > 0 ? whole_batch : batch) {
  state.first_sample = first_sample;
  for (const Constant& constant : graph.body().constants()) set(constant.value, constant.bytes);
}

ConcreteType Evaluator::type(ValueId value) const {
  const TensorType& type = graph_.body().value(value).type;
  return {type.dtype, at_batch(type.shape, batch_), {}, false};
}

void Evaluator::set(ValueId value, const Contents& contents) {
  const ConcreteType concrete = type(value);
  if (static_cast<Bytes>(contents.size()) != concrete.bytes())
    throw std::runtime_error(fmt::format("{} bytes for a value of {}", contents.size(), concrete.bytes()));
  auto buffer = std::make_shared<GuardedBuffer>(concrete.bytes());
  buffer->assign(contents);
  values_[value] = {concrete, buffer};
}

void Evaluator::set_floats(ValueId value, const std::vector<float>& numbers) {
  const auto* bytes = reinterpret_cast<const std::byte*>(numbers.data());
  set(value, Contents(bytes, bytes + numbers.size() * sizeof(float)));
}

Evaluated in_layout(const Evaluated& value, const Layout& layout) {
  if (value.type.layout == layout) return value;
  Evaluated result{value.type, nullptr};
  result.type.layout = layout;
  result.buffer = std::make_shared<GuardedBuffer>(result.type.bytes());
  Bytes workspace_bytes = 0;
  const auto kernel = make_reorder(value.type, layout, &workspace_bytes);
  GuardedBuffer workspace(workspace_bytes);
  const void* in[] = {value.buffer->data()};
  void* out[] = {result.buffer->data()};
  const StepState state;
  kernel->run({in, out, workspace.data(), &state});
  return result;
}

std::vector<bool> find_padding(const ConcreteType& type) {
  const auto size = static_cast<size_t>(size_of(type.dtype));
  std::vector<bool> is_padding(static_cast<size_t>(type.bytes()) / size, false);
  if (!type.layout.is_padded(type.dtype, type.dims)) return is_padding;
  ConcreteType plain = type;
  plain.layout = Layout();
  Evaluated ones{plain, std::make_shared<GuardedBuffer>(plain.bytes())};
  Contents contents(static_cast<size_t>(plain.bytes()));
  const std::vector<float> numbers(static_cast<size_t>(plain.count()), 1.0F);
  if (is_float(type.dtype))
    store_of(type.dtype)(numbers.data(), contents.data(), numbers.size());
  else
    std::fill(contents.begin(), contents.end(), std::byte{1});
  ones.buffer->assign(contents);
  const Contents blocked = in_layout(ones, type.layout).buffer->copy();
  for (size_t i = 0; i < is_padding.size(); ++i)
    is_padding[i] = std::all_of(blocked.data() + i * size, blocked.data() + (i + 1) * size,
                                [](std::byte byte) { return byte == std::byte{0}; });
  return is_padding;
}

namespace {

// oneDNN and the search for numbers that are not finite read padding too, and rely on zeros there. Indices of pooling
// are read by our own kernel alone.
bool has_zero_padding(const Evaluated& value) {
  if (!is_float(value.type.dtype) || !value.type.layout.is_padded(value.type.dtype, value.type.dims)) return true;
  const auto size = static_cast<size_t>(size_of(value.type.dtype));
  const std::vector<bool> is_padding = find_padding(value.type);
  const auto* bytes = static_cast<const std::byte*>(value.buffer->data());
  for (size_t i = 0; i < is_padding.size(); ++i)
    if (is_padding[i] &&
        std::any_of(bytes + i * size, bytes + (i + 1) * size, [](std::byte byte) { return byte != std::byte{0}; }))
      return false;
  return true;
}

}  // namespace

void Evaluator::run(bool keep_runs, const std::function<void(const graph::Node&)>& before) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph_.body().nodes().size()); ++id) {
    if (before) before(graph_.body().node(id));
    run_node(id, keep_runs);
  }
}

void Evaluator::run_node(NodeId id, bool keep_runs) {
  const graph::Node& node = graph_.body().node(id);
  const std::string name(graph_.body().name(node));
  NodeRun run{id, {}, {}, {}, {}};
  std::vector<ConcreteType> in_types, out_types;
  for (const ValueId input : graph_.body().inputs(node)) {
    run.in.push_back(values_.at(input));
    in_types.push_back(run.in.back().type);
  }
  for (int i = 0; i < node.outputs; ++i) out_types.push_back(type(node.first_output + i));
  if (node.op->traits.view) {
    Evaluated result = in_layout(run.in[0], {});
    result.type = out_types[0];
    values_[node.first_output] = result;
    return;
  }
  const Facts facts{graph_.body().attrs(node), in_types, out_types, batch_, whole_batch_, false};
  run.prepared = prepare_guarded(*node.op, facts);
  std::vector<const void*> in;
  for (size_t i = 0; i < run.in.size(); ++i) {
    const bool updated = (node.op->traits.updates >> i & 1) != 0;
    const Layout wanted = run.prepared.in.empty() ? Layout() : run.prepared.in[i];
    if (updated && !(wanted == run.in[i].type.layout))
      throw std::runtime_error(name + ": an updated variable was asked for in another layout");
    run.in[i] = in_layout(run.in[i], wanted);
    run.in_before.push_back(run.in[i].buffer->copy());
    in.push_back(run.in[i].buffer->data());
  }
  std::vector<void*> out;
  for (size_t i = 0; i < out_types.size(); ++i) {
    if (!run.prepared.out.empty()) out_types[i].layout = run.prepared.out[i];
    run.out.push_back({out_types[i], std::make_shared<GuardedBuffer>(out_types[i].bytes())});
    out.push_back(run.out.back().buffer->data());
    values_[node.first_output + static_cast<int>(i)] = run.out.back();
  }
  GuardedBuffer workspace(run.prepared.workspace_bytes);
  run.prepared.kernel->run({in.data(), out.data(), workspace.data(), &state});

  if (!workspace.is_intact()) throw std::runtime_error(name + " writes past its workspace");
  for (const Evaluated& value : run.out) {
    if (!value.buffer->is_intact()) throw std::runtime_error(name + " writes past an output");
    if (!has_zero_padding(value)) throw std::runtime_error(name + " writes numbers into what a layout pads");
  }
  for (size_t i = 0; i < run.in.size(); ++i) {
    if (!run.in[i].buffer->is_intact()) throw std::runtime_error(name + " writes past an input");
    const bool updated = (node.op->traits.updates >> i & 1) != 0;
    if (!updated && run.in[i].buffer->copy() != run.in_before[i])
      throw std::runtime_error(fmt::format("{} changes its input {} and does not declare it", name, i));
  }
  if (keep_runs) runs_.push_back(std::move(run));
}

Contents Evaluator::contents(ValueId value) const { return in_layout(values_.at(value), {}).buffer->copy(); }

std::vector<float> Evaluator::floats(ValueId value) const {
  return to_floats(contents(value), graph_.body().value(value).type.dtype);
}

namespace {

template <class T>
std::vector<float> convert(const Contents& contents) {
  std::vector<T> numbers(contents.size() / sizeof(T));
  std::memcpy(numbers.data(), contents.data(), contents.size());
  return {numbers.begin(), numbers.end()};
}

template <class T>
void put(Contents& contents, size_t index, double number) {
  const T value = static_cast<T>(number);
  std::memcpy(contents.data() + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::vector<float> to_floats(const Contents& contents, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return convert<float>(contents);
    case DType::I32:
      return convert<int32_t>(contents);
    case DType::I64:
      return convert<int64_t>(contents);
    case DType::I8:
      return convert<int8_t>(contents);
    case DType::U8:
    case DType::Bool:
      return convert<uint8_t>(contents);
    case DType::F16:
    case DType::BF16:
      break;
  }
  std::vector<float> numbers(contents.size() / 2);
  load_of(dtype)(contents.data(), numbers.data(), numbers.size());
  return numbers;
}

Contents sample_contents(const TensorType& type, const std::string& name, double low, double high, int64_t batch) {
  const auto count = static_cast<size_t>(element_count(at_batch(type.shape, batch)));
  Contents contents(count * static_cast<size_t>(size_of(type.dtype)));
  const uint64_t key = hash_text(name);
  for (size_t i = 0; i < count; ++i) {
    const double number = low + (high - low) * unit_real(mix_bits(key, i));
    if (type.dtype == DType::F32) put<float>(contents, i, number);
    if (type.dtype == DType::BF16) {
      const auto wide = static_cast<float>(number);
      store_of(DType::BF16)(&wide, contents.data() + 2 * i, 1);
    }
    if (type.dtype == DType::I32) put<int32_t>(contents, i, std::floor(number));
    if (type.dtype == DType::I64) put<int64_t>(contents, i, std::floor(number));
    if (type.dtype == DType::I8) put<int8_t>(contents, i, std::floor(number));
    if (type.dtype == DType::U8 || type.dtype == DType::Bool) put<uint8_t>(contents, i, std::floor(number));
  }
  return contents;
}

Contents slice_batch(const Contents& contents, const TensorType& type, int64_t batch, int64_t first, int64_t count) {
  int axis = -1;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (type.shape[i].is_batch()) axis = i;
  if (axis < 0) return contents;
  int64_t inner = size_of(type.dtype) * type.shape[axis].count();
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= type.shape[i].at(batch);
  for (int i = axis + 1; i < type.shape.rank(); ++i) inner *= type.shape[i].at(batch);
  Contents part;
  for (int64_t i = 0; i < outer; ++i) {
    const auto begin = contents.begin() + (i * batch + first) * inner;
    part.insert(part.end(), begin, begin + count * inner);
  }
  return part;
}

}  // namespace plimsoll::testing
