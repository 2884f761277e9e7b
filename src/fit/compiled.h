// What compile made of a model: its options, and the session that holds its weights between calls.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/train.h>
#include "fit/own_model.h"
#include "graph/model_weights.h"
#include "input/opening/batches.h"
#include "memory/temporary_file.h"
#include "model/model_state.h"
#include "store/model_file.h"
#include "train/training.h"

namespace plimsoll::fit {

// The weights are those of the model (graph/model_weights.h), which the open session shares with all others who use the
// model. Beside them, a session has the optimiser's state: it goes to a file when the session is released.
class Compiled final : public model::Attachment {
 public:
  explicit Compiled(Model model);
  ~Compiled() override;  // with its model
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  const CompileOptions& options() const { return options_; }
  // Sets the options of training from now on: weights stay, the optimiser starts anew.
  void compile(CompileOptions options);
  bool is_compiled() const { return is_compiled_; }
  void prune(const Pruning& pruning);

  // The spec of a call with what the model and its options add. A call says its purpose, line, data and folder, and
  // which ranks it is one of; calls other than a fit have `batches.test` alone.
  train::Spec complete(train::Spec spec) const;
  // An open session that serves the call, with the newest weights. Throws DoesNotFit; the weights are then in a file.
  train::Training& ready(const train::Spec& call);
  // The session as it is; null: there is none.
  train::Training* open_training() { return training_.get(); }
  bool serves(const train::Spec& call) const;
  void release();
  // Also of others who hold weights of the model: all of them are in files then, and take no memory.
  void release_all();
  void keep_stages();  // after a pipeline: each rank writes the weights of all stages to its file
  // Loses the session's weights: the newest are then those of the last release_all.
  void drop();
  void set_trained() { state_ = State::InSession; }

  void save_weights(const std::string& path);
  ModelSpec spec_to_save() const;  // throws Error(Usage) when the types of its inputs are not known
  // Writes a model directory; `preprocessing` is what is known about the data.
  void save_model(const std::string& path, const Preprocessing& preprocessing);
  void load_weights(const std::string& path);
  // Changes variables of the session with the newest weights before the next call.
  void change_weights(std::function<void(train::Training&)> change) { given_change_ = std::move(change); }
  // One call on the model: another one meanwhile, as from a callback of fit, is an Error(Usage).
  class Turn {
   public:
    explicit Turn(Compiled& compiled);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { compiled_.is_busy_ = false; }

   private:
    Compiled& compiled_;
  };

  const std::optional<train::Spec>& last_call() const { return last_; }  // of the last fit or plan
  void remember(const train::Spec& call);

 private:
  bool knows_last_batch(const Dataset& dataset, session::Request (*make)(const model::TrainingGraph&, int64_t)) const;
  void load_state(const std::string& path);
  void take_state(const std::string& path);  // of the caller's file
  void make_file();
  void write_session();  // to the file
  bool make_room();
  const graph::ModelWeights& weights() const;  // of the model; throws Error(Usage) where it has no numbers yet
  void reset_state(std::string_view prefix);

  const Model model_;  // a copy that shares nothing with the model that owns this
  CompileOptions options_;
  std::optional<Pruning> pruning_;
  bool is_compiled_ = false;
  std::atomic<bool> is_busy_ = false;
  std::unique_ptr<train::Training> training_;
  std::optional<train::Spec> made_for_, last_;  // calls
  std::shared_ptr<memory::TemporaryFile> file_ = std::make_shared<memory::TemporaryFile>();
  enum class State { Initial, InSession, InFile };
  State state_ = State::Initial;  // where the newest state of the optimiser is
  // What drop goes back to.
  std::vector<std::pair<std::shared_ptr<graph::ModelWeight>, graph::ModelWeight::Place>> before_;
  State state_before_ = State::Initial;
  bool has_other_state_ = false;                        // the file has the state of another optimiser
  bool has_other_masks_ = false;                        // the file has the masks of another pruning
  std::string given_weights_;                           // whose state is to be loaded before the next call
  std::function<void(train::Training&)> given_change_;  // to be applied after that
};

// A call that trains nothing.
train::Spec call_on(const Dataset& dataset, const MemoryLine& line, train::Purpose purpose);

Compiled& compiled_of(const Model& model);  // made when it is first asked for

}  // namespace plimsoll::fit
