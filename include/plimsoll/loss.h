// Losses: what training makes small, by name or as a function of tensors, with the formulas of Keras.
//
//   net.compile({.loss = "sparse_cross_entropy"});
//   net.compile({.loss = Loss::cross_entropy(0.1)});
//   net.compile({.loss = [](Tensor output, Tensor target) { return abs(output - target); }});
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

class Loss {
 public:
  // One number for each sample or element, or their mean as a scalar, of an output and its target.
  using Function = std::function<Tensor(Tensor output, Tensor target)>;

  // Keras' names are known too: mean_squared_error, sparse_categorical_crossentropy and so on. Throws Error(Usage) that
  // names the nearest one and all that are known.
  Loss(const char* name) : Loss(std::string_view(name)) {}         // NOLINT(google-explicit-constructor)
  Loss(const std::string& name) : Loss(std::string_view(name)) {}  // NOLINT(google-explicit-constructor)
  explicit Loss(std::string_view name);
  template <class Own>
  requires std::invocable<Own, Tensor, Tensor> Loss(Own own)  // NOLINT(google-explicit-constructor)
      : name_("own loss"), values_(std::move(own)), is_own_(true) {}

  static Loss sparse_cross_entropy();                            // logits against class numbers
  static Loss cross_entropy(double label_smoothing = 0);         // logits against probabilities of classes
  static Loss binary_cross_entropy(double label_smoothing = 0);  // logits against probabilities
  static Loss mse();
  static Loss mae();
  static Loss huber(double delta = 1);
  static Loss log_cosh();
  static Loss hinge();          // targets -1 and 1, or 0 and 1
  static Loss squared_hinge();  // the same
  static Loss poisson();
  static Loss kl_divergence();
  static Loss cosine_similarity();  // -1: the same direction
  static std::vector<std::string> names();

  const std::string& name() const { return name_; }

  // The mean over all elements. With weights, one for each sample: the mean of weight x loss, not divided by the sum of
  // the weights. Throws Error for shapes that do not match.
  Tensor mean(Tensor output, Tensor target, Tensor weights = {}) const;
  // What metrics measure: probabilities where the loss takes logits of them.
  Tensor prediction(Tensor output) const;

 private:
  Loss(std::string name, Function values) : name_(std::move(name)), values_(std::move(values)) {}
  Tensor target_for(Tensor output, Tensor target) const;

  std::string name_;
  Function values_;
  Function mean_ = {};          // the same in one kernel, where there is one
  bool takes_classes_ = false;  // targets are class numbers
  bool is_binary_ = false;
  bool is_own_ = false;
};

}  // namespace plimsoll
