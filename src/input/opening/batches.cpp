#include "input/opening/batches.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/recipe.h"

namespace plimsoll::input {
namespace {

int64_t largest_batch(const Component& component) {
  const Dims& sizes = component.most.empty() ? component.shape : component.most;
  return sizes.empty() ? 0 : sizes[0];
}

bool is_of_one_shape(const Component& component) {
  return std::all_of(component.shape.begin() + 1, component.shape.end(), [](int64_t size) { return size >= 0; });
}

// Elements before the stage that makes batches, where each later stage hands on as many as it gets; else kUnknown.
int64_t count_samples(const Recipe& recipe) {
  const Recipe* stage = &recipe;
  while (stage->inputs().size() == 1 && stage->size() == recipe.size()) {
    const Recipe& input = stage->input();
    if (input.element().empty() || stage->element().empty()) break;
    if (stage->element()[0].shape.rank() == input.element()[0].shape.rank() + 1) return input.size();
    stage = &input;
  }
  return Dataset::kUnknown;
}

}  // namespace

int64_t BatchCount::samples() const {
  if (batches < 0) return batches;
  if (!rest) return Dataset::kUnknown;
  return *rest == 0 ? batches * batch : (batches - 1) * batch + *rest;
}

BatchCount count_batches(const Dataset& dataset) {
  const ElementSpec& spec = dataset.element();
  BatchCount count;
  for (const Component& component : spec) {
    if (component.shape.empty())
      throw Error(fmt::format("'{}' of the dataset is one number, not a batch of them ({}); add .batch(32) to the "
                              "dataset",
                              component.name, to_string(spec)),
                  ErrorKind::Usage);
    if (!is_of_one_shape(component))
      throw Error(fmt::format("'{}' of the dataset has no fixed shape ({}); pad or resize its samples to one shape",
                              component.name, to_string(spec)),
                  ErrorKind::Usage);
    const int64_t batch = largest_batch(component);
    if (count.batch != 0 && batch != count.batch)
      throw Error(fmt::format("the dataset has {} samples of '{}' in a batch but {} of '{}' ({}); are its elements "
                              "batches? add .batch(32) to the dataset",
                              count.batch, spec[0].name, batch, component.name, to_string(spec)),
                  ErrorKind::Usage);
    count.batch = batch;
  }
  if (count.batch < 1) throw Error("the dataset has no components, or empty batches", ErrorKind::Usage);
  count.batches = dataset.size();
  if (spec[0].shape[0] >= 0) {
    count.rest = 0;
    return count;
  }
  const int64_t samples = count_samples(*recipe_of(dataset));
  if (samples >= 0 && count.batches == (samples + count.batch - 1) / count.batch) count.rest = samples % count.batch;
  return count;
}

bool holds_batches(const Dataset& dataset) {
  const RecipePtr last = recipe_of(dataset);
  for (const Recipe* stage = last.get(); stage->inputs().size() == 1; stage = &stage->input()) {
    const ElementSpec &element = stage->element(), &before = stage->input().element();
    if (element.empty() || before.empty()) return false;
    const auto grown = static_cast<int64_t>(element[0].shape.rank()) - static_cast<int64_t>(before[0].shape.rank());
    const std::string text = stage->text();
    if (grown != 0) return grown == 1 && (text.starts_with("batch(") || text.starts_with("padded_batch("));
  }
  return false;
}

bool lie_aligned(const Dataset& dataset) {
  return std::ranges::any_of(dataset.element(), [](const Component& c) { return c.bytes() >= kAlignment; });
}

BatchFeeds::BatchFeeds(const std::vector<FedTensor>& fed, const ElementSpec& batches) {
  for (const FedTensor& tensor : fed)
    for (size_t i = 0; i < batches.size(); ++i) {
      if (batches[i].name != tensor.component) continue;
      components_.push_back(i);
      feeds_.emplace_back(tensor.placeholder, batches[i].dtype, nullptr, 0);
    }
}

std::span<const Feed> BatchFeeds::of(const ElementView& batch) {
  for (size_t i = 0; i < feeds_.size(); ++i) {
    feeds_[i].data = batch.data(components_[i]);
    feeds_[i].bytes = batch.bytes(components_[i]);
  }
  return feeds_;
}

std::span<const Feed> BatchFeeds::of(const ElementView& batch, int64_t first, int64_t count) {
  const int64_t samples = samples_of(batch);
  for (size_t i = 0; i < feeds_.size(); ++i) {
    const Bytes sample = batch.bytes(components_[i]) / samples;
    feeds_[i].data = static_cast<const std::byte*>(batch.data(components_[i])) + first * sample;
    feeds_[i].bytes = count * sample;
  }
  return feeds_;
}

int64_t samples_of(const ElementView& batch) { return batch.dims(size_t{0})[0]; }

}  // namespace plimsoll::input
