// A layer of Python: a model of its own, so that whoever calls it uses the same weights.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include <plimsoll/model.h>

namespace plimsoll::python {

struct PyLayer {
  Model model;              // empty until a layer written in Python is first called
  std::string name;         // as given; empty: its kind
  bool gives_dict = false;  // its outputs, where there are several
};

// Whether the call under way is one of training, for layers that are not told.
class TrainingCall {
 public:
  explicit TrainingCall(bool is_training);
  ~TrainingCall();
  TrainingCall(const TrainingCall&) = delete;
  TrainingCall& operator=(const TrainingCall&) = delete;
  static bool is_training();

 private:
  const bool before_;
};

// The model of a layer; throws Error where it was not called yet.
const Model& model_of(nanobind::handle layer);

}  // namespace plimsoll::python
