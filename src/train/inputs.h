// Batches of one half of the data, as the steps of a training read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <plimsoll/dataset.h>
#include "report/data.h"
#include "train/training.h"

namespace plimsoll::train {

struct InputOptions {
  bool trains = false;   // shuffled as the pipeline says
  bool repeats = false;  // epochs without end, of full batches alone
  uint64_t seed = 1;
  Shards shards = {};  // which of them are read; those of a step are batches of their own
};

// Batches of that size of one half of the data. `fed` are the types of the step's inputs, to which numbers are
// converted here.
Dataset make_batches(const input::Samples& samples, const ModelSpec& model, const input::Pipeline& pipeline,
                     const std::vector<DType>& fed, int64_t batch, const InputOptions& options);

// A batch as far as this rank reads it.
struct BatchPart {
  const ElementView* view = nullptr;  // valid until the next call; null: this rank has no sample of the batch
  int64_t samples = 0;                // of the whole batch; 0: the epoch is over
  bool is_whole = true;               // the view has all samples, not those of this rank alone
};

// Reads ahead in the data share, which training and test data use in turn.
class Inputs {
 public:
  // Throws Error(Usage) when the batch to train with is larger than the half.
  Inputs(const Training& training, const input::Samples& samples, const InputOptions& options = {});
  // Batches that are made already.
  Inputs(const Training& training, const Dataset& batches);
  void start_epoch(int64_t epoch);
  // Goes on after the batches that an earlier iteration handed out.
  void start_at(const DatasetState& state);
  // The next batch, in place until the following call; null at the end of the epoch.
  const ElementView* next();
  // The next batch where several ranks or shards share it. All ranks know how many batches an epoch has.
  BatchPart next_part();
  void stop();
  // Throws Error(Usage) for a state of other data, wherever that lies.
  void expect_same_data(const DatasetState& state) const;
  uint64_t identity() const { return whole_; }  // of all samples and stages, whoever reads which part; 0: not of files
  // After the last batch that was handed out.
  DatasetState state() const;

  const ElementSpec& element() const { return batches_.element(); }
  // Negative where the dataset does not know.
  int64_t samples() const { return samples_; }
  int64_t steps_per_epoch() const { return steps_; }  // at most, where bad samples are passed over
  // Samples of a last batch that is not full; 0: there is none; unset: not known.
  std::optional<int64_t> last_batch() const { return last_batch_; }
  int64_t skipped() const { return skipped_; }                       // bad samples, in all epochs that were stopped
  const std::string& last_skipped() const { return last_skipped_; }  // what was wrong with the last of them
  int64_t waited_ns() const { return waited_ns_; }                   // in next()
  std::vector<StageReport> stages() const;                           // of the epoch under way

 private:
  MemoryLine share_;  // of the line, held by the session
  DatasetState shared(DatasetState own) const;
  bool reads() const { return sharer_ == nullptr || sharer_->rank() == 0; }
  BatchPart share_part();

  int64_t samples_, steps_;
  int64_t batch_ = 0;
  Shards shards_;
  // A rank reads only its own samples of each batch. Its position in the data is stored as that of all ranks: a number
  // of batches of the whole dataset.
  bool reads_part_ = false;
  int64_t position_ = 0;
  uint64_t whole_ = 0;
  std::string path_;
  ranks::Communicator* sharer_ = nullptr;  // replicas of one process, of which the first reads for all
  std::optional<int64_t> last_batch_;
  Dataset batches_;
  std::optional<Iteration> iteration_;
  DatasetState stopped_at_ = {};
  int64_t skipped_ = 0, waited_ns_ = 0;
  std::string last_skipped_;
};

// The types of inputs that the steps are fed: bytes where all data is bytes, else the model's own.
std::vector<DType> fed_types(const input::Data& data, const ModelSpec& model);

// What Inputs of its data take at most under the line.
std::vector<StageReport> planned_stages(const Training& training);
Bytes bytes_of(const std::vector<StageReport>& stages);
// Whether a step may read all batches of its data where they lie.
bool lie_aligned(const Training& training);
// What Inputs have a use for when they may take so much.
Bytes useful_bytes(const Training& training, Bytes room);

}  // namespace plimsoll::train
