// Checkpoints of a training: what a crash, a signal or a full disk leaves to go on from.
//
//   callbacks = {checkpoint("runs/1", {.every_steps = 500, .keep = 5})}
//
// Each is a directory, runs/1/000007-step-350, that appears under its name as a whole: manifest.json with sizes and
// checksums, weights.safetensors, optimiser.safetensors and history.jsonl. Training that goes on from one ends with the
// same bits as training that was never stopped, also under another line or with other numbers of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <plimsoll/callback.h>

namespace plimsoll {

struct CheckpointOptions {
  // When one is written; several may be given. None: after each epoch.
  int64_t every_steps = 0;
  int64_t every_epochs = 0;
  double every_seconds = 0;  // after the step that is under way then
  // Training begins where the newest checkpoint of the folder is whose files are whole; without any, from the
  // beginning. One of another model or dataset is refused with what differs.
  bool resume = false;
  std::function<void(const std::string& why)> warn = {};  // hears of damaged checkpoints that are passed over

  int64_t keep = 3;  // the newest so many; older ones are removed after the next is in place
  // Writes only when this number is better than at all earlier checkpoints: higher for accuracy, precision, recall,
  // auc and top_..., else lower. Without this option, one more is written at the end of training.
  bool save_best_only = false;
  std::string monitor = "val_loss";
};

// Throws Error(Usage) for numbers that make no sense. Whether the folder can be written is known before the first step.
std::shared_ptr<Callback> checkpoint(const std::string& folder, const CheckpointOptions& options = {});

}  // namespace plimsoll
