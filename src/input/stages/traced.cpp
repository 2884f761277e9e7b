// map with operators: the function becomes a graph, and each thread has a planned session of it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/session.h>
#include "input/stages/map.h"
#include "kernels/thread_count.h"

namespace plimsoll {
namespace {

// The most rows of components whose first dimension differs, or 1 where all are fixed.
int64_t batch_of(const ElementSpec& spec) {
  std::optional<int64_t> batch;
  for (const Component& component : spec) {
    if (component.is_fixed()) continue;
    Dims rest = component.shape;
    rest.erase(0);
    if (component.shape[0] != -1 || std::ranges::find(rest, -1) != rest.end() ||
        batch.value_or(component.most[0]) != component.most[0])
      throw Error(fmt::format("map with operators: component '{}' {} differs in shape between elements; map it to one "
                              "shape with a C++ function, or use padded_batch, before",
                              component.name, to_string(component.shape)),
                  ErrorKind::Usage);
    batch = component.most[0];
  }
  return batch.value_or(1);
}

std::vector<Tensor> tensors_of(const Sample& sample) {
  std::vector<Tensor> tensors;
  if (sample.x.is_set()) tensors.push_back(sample.x);
  if (sample.y.is_set()) tensors.push_back(sample.y);
  tensors.insert(tensors.end(), sample.more.begin(), sample.more.end());
  return tensors;
}

// One graph and its session; for one thread at a time.
class TracedFunction {
 public:
  TracedFunction(const ElementSpec& spec, const Dataset::SampleFunction& function, const MemoryLine& line)
      : batch_(batch_of(spec)) {
    Sample sample;
    for (const Component& component : spec) {
      Shape shape;
      for (const int64_t size : component.shape) shape.push_back(size == -1 ? Dim::batch() : Dim(size));
      inputs_.push_back(graph_.placeholder(component.name, component.dtype, shape));
      sample.names.push_back(component.name);
      if (inputs_.size() == 1)
        sample.x = inputs_.back();
      else if (inputs_.size() == 2)
        sample.y = inputs_.back();
      else
        sample.more.push_back(inputs_.back());
    }
    const Sample result = function(sample);
    outputs_ = tensors_of(result);
    names_ = result.names.empty() ? sample.names : result.names;
    if (outputs_.empty() || outputs_.size() > names_.size())
      throw Error(fmt::format("map with operators: the function gave {} tensors for {} names; give Sample::names",
                              outputs_.size(), names_.size()),
                  ErrorKind::Usage);
    for (const Tensor& output : outputs_) {
      if (!output.is_set() || output.owner() != &graph_.body())
        throw Error("map with operators: the function gave a tensor that is none of its graph", ErrorKind::Usage);
      // An input that is returned unchanged is copied without the session.
      if (std::ranges::find(inputs_, output) == inputs_.end()) fetch_.push_back(output);
    }
    if (fetch_.empty()) return;
    const kernels::ThreadCount one(1);
    session_.emplace(graph_, line);
    step_.emplace(session_->step({.fetch = fetch_, .batch = batch_}));
  }

  ElementSpec element() const {
    ElementSpec spec;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Component component{names_[i], outputs_[i].dtype(), {}, {}};
      for (const Dim& dim : outputs_[i].shape()) {
        component.shape.push_back(dim.is_batch() ? -1 : dim.at(batch_));
        component.most.push_back(dim.at(batch_));
      }
      spec.push_back(std::move(component));
    }
    return spec;
  }
  Bytes bytes() const { return session_ ? std::max(session_->arena_bytes(), session_->peak_bytes()) : 0; }

  void operator()(const ElementView& from, const ElementSlot& to) {
    const kernels::ThreadCount one(1);
    feeds_.clear();
    for (size_t i = 0; i < inputs_.size(); ++i)
      feeds_.emplace_back(inputs_[i], inputs_[i].dtype(), from.data(i), from.bytes(i));
    size_t fetched = 0;
    std::optional<Results> results;
    if (step_) results.emplace((*step_)(feeds_));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto input = std::ranges::find(inputs_, outputs_[i]);
      if (input != inputs_.end()) {
        const auto index = static_cast<size_t>(input - inputs_.begin());
        write(to, i, from.dims(index), from.data(index), from.bytes(index));
      } else {
        const View& view = (*results)[fetched++];
        write(to, i, view.dims, view.data(), view.bytes);
      }
    }
  }

 private:
  static void write(const ElementSlot& to, size_t component, const Dims& dims, const void* from, Bytes bytes) {
    to.set_dims(component, dims);
    std::memcpy(to.data(component), from, static_cast<size_t>(bytes));
  }

  const int64_t batch_;
  Graph graph_;
  std::vector<Tensor> inputs_, outputs_, fetch_;
  std::vector<std::string> names_;
  std::optional<Session> session_;
  std::optional<Step> step_;
  std::vector<Feed> feeds_;
};

}  // namespace

Tensor Dataset::Sample::operator[](std::string_view name) const {
  const std::vector<Tensor> tensors = tensors_of(*this);
  for (size_t i = 0; i < std::min(tensors.size(), names.size()); ++i)
    if (names[i] == name) return tensors[i];
  throw Error(fmt::format("a sample has no component '{}'; it has: {}", name, fmt::join(names, ", ")),
              ErrorKind::Usage);
}

Dataset Dataset::map(const SampleFunction& function, int threads) const {
  if (!function) throw Error("map needs a function", ErrorKind::Usage);
  // Planned once here to know the output and the bytes. A session takes its memory when it opens, so none is taken
  // here.
  const TracedFunction planned(element(), function, MemoryLine());
  const Bytes bytes = planned.bytes();
  const auto make = [spec = element(), function, bytes](MemoryLine& line) -> RandomMapFunction {
    auto traced = std::make_shared<TracedFunction>(spec, function, line.share(Tag::Data, bytes));
    return [traced](const ElementView& from, const ElementSlot& to, uint64_t) { (*traced)(from, to); };
  };
  const std::string text = fmt::format("map(traced to {})", to_string(planned.element()));
  return input::make_dataset(input::make_map(
      recipe_, {.element = planned.element(), .make = make, .threads = threads, .thread_bytes = bytes, .text = text}));
}

}  // namespace plimsoll
