#include "train/epoch_sums.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::train {

EpochSums::EpochSums(const ModelSpec& model, const std::vector<Tensor>& tensors) {
  names_.emplace_back("loss");
  size_t tensor = 0;
  for (const MetricSums& metric : model.metrics) {
    Part part{metric.tensors, sums_.size(), 0, metric.value};
    for (size_t i = 0; i < metric.tensors; ++i)
      part.count += static_cast<size_t>(element_count(tensors.at(tensor++).shape()).fixed());
    sums_.resize(sums_.size() + part.count);
    names_.push_back(metric.name);
    parts_.push_back(std::move(part));
  }
  added_.resize(width());
}

void EpochSums::clear() {
  std::fill(sums_.begin(), sums_.end(), 0);
  loss_ = samples_ = 0;
}

void EpochSums::add(std::span<const View> fetched, int64_t samples) {
  write(fetched, samples, added_);
  add(added_);
}

void EpochSums::write(std::span<const View> fetched, int64_t samples, std::span<double> into) const {
  const auto count = static_cast<double>(samples);
  into[0] = count;
  into[1] = static_cast<double>(fetched[0].floats()[0]) * count;
  size_t view = 1, at = 2;
  for (const Part& part : parts_)
    for (size_t i = 0; i < part.tensors; ++i)
      for (const float number : fetched[view++].floats())
        into[at++] = part.value ? static_cast<double>(number) : static_cast<double>(number) * count;
}

void EpochSums::add(std::span<const double> numbers) {
  samples_ += numbers[0];
  loss_ += numbers[1];
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += numbers[i + 2];
}

double EpochSums::mean(size_t i) const {
  if (i == 0) return loss_ / samples_;
  const Part& part = parts_[i - 1];
  return part.value ? part.value({sums_.data() + part.first, part.count}, samples_) : sums_[part.first] / samples_;
}

std::vector<std::pair<std::string, double>> EpochSums::state() const {
  std::vector<std::pair<std::string, double>> state{{"samples", samples_}, {"loss", loss_}};
  for (size_t m = 0; m < parts_.size(); ++m)
    for (size_t i = 0; i < parts_[m].count; ++i)
      state.emplace_back(fmt::format("{}.{}", names_[m + 1], i), sums_[parts_[m].first + i]);
  return state;
}

void EpochSums::set(const std::vector<std::pair<std::string, double>>& state) {
  const auto own = this->state();
  bool is_same = own.size() == state.size();
  for (size_t i = 0; is_same && i < own.size(); ++i) is_same = own[i].first == state[i].first;
  if (!is_same)
    throw Error("the state of the training is not one of this model: it has other metrics", ErrorKind::Usage);
  samples_ = state[0].second;
  loss_ = state[1].second;
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] = state[i + 2].second;
}

}  // namespace plimsoll::train
