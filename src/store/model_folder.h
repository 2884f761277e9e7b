// The directory of a stored model on the disk: written beside its place and put there as a whole.
#pragma once

#include <string>

#include "memory/descriptor.h"

namespace plimsoll::store {

// The files of a model.
constexpr const char* kModelFacts = "model.json";
constexpr const char* kModelGraph = "graph.txt";
constexpr const char* kModelWeights = "weights.safetensors";

// A directory with a file of facts in it, whatever that says.
bool is_model_directory(const std::string& path);

class ModelFolder {
 public:
  // Makes an empty directory beside the place that `path` names. Throws Error(Usage) when something is there that is
  // neither a model nor an empty directory, holds files that no model has, or can't be replaced; DiskFull.
  explicit ModelFolder(const std::string& path);
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  ~ModelFolder();  // without place: what was written is dropped, and what was there is as before

  const std::string& folder() const { return begun_; }
  std::string file(const char* name) const { return begun_ + "/" + name; }  // to be written before place()
  // Puts it there. On return it is on the disk: its files must be already. A crash leaves the old model or the new one.
  void place();

 private:
  [[noreturn]] void fail(int reason) const;

  const std::string shown_;  // as the caller wrote it
  std::string place_;        // without symbolic links
  std::string begun_;
  bool is_made_ = false;
  memory::Descriptor lock_;
};

}  // namespace plimsoll::store
