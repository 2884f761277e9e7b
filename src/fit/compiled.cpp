#include "fit/compiled.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/running.h"
#include "model/model_state.h"
#include "model/rewrite.h"
#include "store/model_file.h"
#include "train/inputs.h"
#include "train/pipeline_weights.h"
#include "weights/file_weights.h"
#include "weights/finite.h"
#include "weights/weights_file.h"

namespace plimsoll::fit {
namespace {

// Whether both feed the same placeholder, whatever the number of samples.
bool same_samples(const Component& a, const Component& b) {
  if (a.name != b.name || a.dtype != b.dtype || a.shape.rank() != b.shape.rank()) return false;
  return std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

bool has_component(const ElementSpec& batches, const Component& wanted) {
  return std::any_of(batches.begin(), batches.end(), [&](const Component& c) { return same_samples(c, wanted); });
}

// The numbers of a weight, checked on their way to a file.
void write_weight(const graph::ModelWeight& weight, const std::string& name, const weights::PutBytes& put) {
  weight.read([&](std::span<const std::byte> piece) {
    if (!weights::is_finite(weight.type().dtype, piece))
      throw Error(fmt::format("'{}' holds NaN or infinity and is not saved", name), ErrorKind::BadNumbers);
    put(piece);
  });
}

const Dataset& main_data(const train::Spec& call) {
  return call.batches.train ? *call.batches.train : *call.batches.test;
}

// Steps of validation are fed like those of training.
void expect_same_samples(const train::Spec& spec) {
  const ModelSpec& model = *spec.own_model;
  for (const Component& component : spec.batches.train->element()) {
    const bool is_fed =
        std::find(model.components.begin(), model.components.end(), component.name) != model.components.end();
    const bool is_left_out = component.name == spec.sample_weights.component && !spec.sample_weights.weigh_validation;
    if (is_fed && !is_left_out && !has_component(spec.batches.test->element(), component))
      throw Error(fmt::format("fit: the validation data has {} where the training data has {}; both must have the same "
                              "'{}'",
                              to_string(spec.batches.test->element()), to_string(spec.batches.train->element()),
                              component.name),
                  ErrorKind::Usage);
  }
}

int64_t last_batch(const std::optional<Dataset>& dataset, bool& is_known) {
  if (!dataset) return 0;
  const input::BatchCount count = input::count_batches(*dataset);
  if (!count.rest) is_known = false;
  return count.rest.value_or(0);
}

}  // namespace

train::Spec call_on(const Dataset& dataset, const MemoryLine& line, train::Purpose purpose) {
  train::Spec call;
  call.purpose = purpose;
  call.own_line = line;
  call.batches.test = dataset;
  return call;
}

Compiled& compiled_of(const Model& model) {
  if (model.state() == nullptr) throw Error("the model is empty; make it from layers or from a function first");
  std::shared_ptr<model::Attachment>& attachment = model.state()->attachment;
  if (!attachment) {
    const Model copy(model.name(), model.inputs(), model.outputs(), model.state()->function);
    copy.state()->weights = model.state()->weights;
    copy.state()->called_with = model.state()->called_with;
    copy.state()->stored = model.state()->stored;
    copy.state()->starts_fresh = model.state()->starts_fresh;
    attachment = std::make_shared<Compiled>(copy);
  }
  return static_cast<Compiled&>(*attachment);
}

Compiled::Compiled(Model model) : model_(std::move(model)) {}

Compiled::~Compiled() { model_.state()->weights->disown(); }  // so that the session keeps nothing for it

Compiled::Turn::Turn(Compiled& compiled) : compiled_(compiled) {
  if (compiled.is_busy_.exchange(true))
    throw Error(fmt::format("model '{}' is in use by a call that is not over yet, such as the fit that called this "
                            "callback; use it after that call",
                            compiled.model_.name()),
                ErrorKind::Usage);
}

void Compiled::compile(CompileOptions options) {
  release();
  options_ = std::move(options);
  if (options_.pruning) prune(*options_.pruning);
  is_compiled_ = has_other_state_ = true;
}

void Compiled::prune(const Pruning& pruning) {
  pruning.check();
  release();
  pruning_ = pruning;
  has_other_masks_ = true;
}

train::Spec Compiled::complete(train::Spec spec) const {
  const Dataset& main = main_data(spec);
  const bool predicts = spec.purpose == train::Purpose::Predict;
  spec.own_model = std::make_shared<const ModelSpec>(
      predicts       ? make_inference_spec(model_, main.element())
      : is_compiled_ ? make_model_spec(model_, options_, main.element(), spec.sample_weights)
                     : make_stored_spec(model_, main.element()));
  if (spec.batches.train && spec.batches.test) expect_same_samples(spec);
  spec.batch = input::count_batches(main).batch;
  spec.optimiser = options_.optimiser;
  spec.seed = options_.seed;
  // A session of replicas or ranks is not used after the training.
  spec.predicts = spec.shards == 0 && !spec.stages.is_set() && !spec.communicator;
  spec.loads_weights = true;
  if (predicts && state_ != State::InFile) spec.weights_file = given_weights_;
  spec.levers = options_.levers;
  spec.policy = options_.policy;
  spec.freeze = options_.freeze;
  spec.accumulate = options_.accumulate;
  spec.pruning = pruning_;
  bool is_known = true;
  spec.last_batches.train = last_batch(spec.batches.train, is_known);
  spec.last_batches.evaluate = last_batch(spec.batches.test, is_known);
  if (predicts) std::swap(spec.last_batches.evaluate, spec.last_batches.predict);
  if (!is_known) spec.plans_other_batches = true;
  return spec;
}

bool Compiled::knows_last_batch(const Dataset& dataset,
                                session::Request (*make)(const model::TrainingGraph&, int64_t)) const {
  const std::optional<int64_t> rest = input::count_batches(dataset).rest;
  if (training_->spec.plans_other_batches || rest == 0) return true;
  if (!rest) return false;
  const session::Request wanted = make(training_->passes, *rest);
  const auto& steps = training_->session->steps();
  return std::any_of(steps.begin(), steps.end(), [&](const auto& step) { return step.request == wanted; });
}

bool Compiled::serves(const train::Spec& call) const {
  if (!training_ || !(*call.own_line == *made_for_->own_line) || call.scratch_folder != made_for_->scratch_folder)
    return false;
  if (call.log_bytes > made_for_->log_bytes) return false;
  if (call.communicator || call.shards > 0 || training_->shards.is_cut) return false;
  if (call.stages.is_set() || training_->place.is_set()) return false;
  const train::Purpose can = made_for_->purpose;
  if (call.purpose == train::Purpose::Train &&
      (can != train::Purpose::Train || !(call.sample_weights == made_for_->sample_weights)))
    return false;
  if (call.purpose == train::Purpose::Evaluate && can == train::Purpose::Predict) return false;
  for (const std::optional<Dataset>& dataset : {call.batches.train, call.batches.test}) {
    if (!dataset) continue;
    const Bytes taken = dataset->bytes() - input::kept_bytes(*input::recipe_of(*dataset));
    if (input::count_batches(*dataset).batch != training_->spec.batch || taken > training_->data_bytes) return false;
    if (training_->reads_in_place && !input::lie_aligned(*dataset)) return false;
    // Inputs alone are enough to predict.
    const size_t inputs = training_->passes.inputs.size();
    const size_t wanted = call.purpose == train::Purpose::Predict ? inputs : training_->fed.size();
    const ElementSpec& known = main_data(*made_for_).element();
    for (size_t i = 0; i < wanted; ++i) {
      const auto component = std::find_if(known.begin(), known.end(),
                                          [&](const Component& c) { return c.name == training_->fed[i].component; });
      if (component == known.end() || !has_component(dataset->element(), *component)) return false;
    }
  }
  if (call.batches.train && !knows_last_batch(*call.batches.train, train::train_request)) return false;
  if (!call.batches.test) return true;
  return knows_last_batch(*call.batches.test,
                          call.purpose == train::Purpose::Predict ? train::predict_request : train::evaluate_request);
}

train::Training& Compiled::ready(const train::Spec& call) {
  if (call.purpose == train::Purpose::Train) remember(call);
  if (!serves(call)) {
    release_all();
    training_ = train::make_training(complete(call));
    made_for_.emplace(call);
    training_->session->open();
    if (state_ == State::InFile) load_state(file_->path());
    if ((has_other_state_ || has_other_masks_) && call.purpose == train::Purpose::Train) {
      reset_state(has_other_state_ ? "" : "pruning/");
      has_other_state_ = has_other_masks_ = false;
      state_ = State::InSession;
    }
    // A stage of a pipeline changes a part of the weights, which count when all ranks have theirs: see keep_stages.
    if (training_->place.stages > 1)
      session::copy_weights_in(*training_->session, training_->graph.body(), training_->spec.seed);
    else
      training_->session->link_weights(true, [this] { return make_room(); });
  }
  if (!given_weights_.empty()) take_state(std::exchange(given_weights_, {}));
  if (given_change_) {
    std::exchange(given_change_, {})(*training_);
    state_ = State::InSession;
  }
  return *training_;
}

// Keeps the call without replicas, ranks and stages, as this process alone would have it.
void Compiled::remember(const train::Spec& call) {
  last_.emplace(call);
  last_->communicator = nullptr;
  last_->shards = last_->threads = 0;
  last_->stages = {};
  last_->shares_batches = false;
}

void Compiled::load_state(const std::string& path) {
  weights::load_weights(*training_->session, training_->graph, path,
                        {.part = weights::WeightsPart::Optimiser, .may_miss = [](std::string_view) { return true; }});
}

void Compiled::take_state(const std::string& path) {
  const Bytes more = weights::WeightsReader::bytes_to_read(path) - training_->weights_file_bytes;
  Reservation to_read;  // another file than the one that the plan has room for
  if (more > 0 && training_->line->covers_process()) to_read = training_->line->reserve(Tag::Runtime, more);
  load_state(path);
  state_ = State::InSession;
  if (made_for_->purpose == train::Purpose::Train) return;
  // A session that trains nothing has no place for the optimiser's state: a later fit finds it in the file.
  const weights::FileWeights file(path);
  const std::vector<weights::StoredTensor> state = file.list_others(*model_.state()->weights, model_.name() + "/");
  if (state.empty()) return;
  make_file();
  weights::write_weights_file(
      file_->path(), weights::list_of(state),
      [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) { file.read_all(tensor, put); },
      {.steps = file.steps()});
  state_ = State::InFile;
  has_other_state_ = false;
}

// Another file each time: models may still have their numbers in the last one.
void Compiled::make_file() {
  file_ = std::make_shared<memory::TemporaryFile>();
  file_->create(made_for_->scratch_folder, "plimsoll-weights");
}

// Sets the optimiser's state as when the session opened: all elements of a state start as one number.
void Compiled::reset_state(std::string_view prefix) {
  for (const graph::Variable& variable : training_->graph.body().variables()) {
    if (variable.role() != VariableRole::Optimiser || !variable.stored->name.starts_with(prefix)) continue;
    const auto start = static_cast<float>(variable.init().a);
    training_->session->fill(Tensor(training_->graph, variable.value), [&](void* into, Bytes, Bytes bytes) {
      const bool is_byte = variable.stored->type.dtype == DType::U8;
      std::memset(into, is_byte ? static_cast<int>(start) : 0, static_cast<size_t>(bytes));
      if (start != 0 && !is_byte)
        std::fill_n(static_cast<float*>(into), static_cast<size_t>(bytes) / sizeof(float), start);
    });
  }
}

void Compiled::keep_stages() {
  make_file();
  train::save_stage_weights(*training_, file_->path(), true);
  state_ = State::InFile;
  model_.state()->weights->load(
      {std::make_shared<const weights::FileWeights>(file_->path(), file_), model_.name() + "/", {}, file_->path()});
}

// The session is written as a whole, so models that have their newest numbers in it alone find them in the file.
void Compiled::write_session() {
  make_file();
  weights::save_weights(*training_->session, training_->graph, file_->path());
  state_ = State::InFile;
  const auto source = std::make_shared<const weights::FileWeights>(file_->path(), file_);
  for (const graph::Variable& variable : training_->graph.body().variables())
    if (const auto& weight = variable.stored->weight; weight != nullptr && !weight->is_kept())
      weight->keep(source, variable.stored->name);
}

void Compiled::release() {
  if (!training_) return;
  // A stage of a pipeline has only a part of the weights: the newest whole ones are those before the training.
  const bool is_part = training_->place.stages > 1;
  if (training_->session->is_open() && state_ == State::InSession && !is_part) write_session();
  training_.reset();
}

void Compiled::release_all() {
  release();
  graph::ModelWeights& weights = *model_.state()->weights;
  weights::keep_in_file(weights::list_held(weights));
  before_.clear();
  weights.for_each([&](const graph::ModelWeights::Member& member) {
    member.weight->call_in();
    if (member.weight->is_kept()) before_.emplace_back(member.weight, member.weight->place());
  });
  state_before_ = state_;
}

void Compiled::drop() {
  if (training_) training_->session->unlink_weights();
  training_.reset();
  for (const auto& [weight, place] : before_) weight->put(place.source, place.name);
  state_ = state_before_;
}

bool Compiled::make_room() {
  if (!training_ || is_busy_) return false;
  const Turn turn(*this);
  release();
  return true;
}

const graph::ModelWeights& Compiled::weights() const {
  bool has_numbers = false;
  graph::ModelWeights& weights = *model_.state()->weights;
  if (const auto& stored = model_.state()->stored) store::add_weights(weights, *stored->traced);
  weights.for_each([&](const graph::ModelWeights::Member& member) { has_numbers |= member.weight->has_numbers(); });
  if (!has_numbers && given_weights_.empty())
    throw Error(fmt::format("model '{}' has no weights to save yet; call it, fit or load_weights first", model_.name()),
                ErrorKind::Usage);
  return weights;
}

// Where the session does not have the newest state of the optimiser, a file has it, if there is any.
void Compiled::save_weights(const std::string& path) {
  if (training_ && given_weights_.empty() && state_ != State::InFile && training_->place.stages <= 1)
    return weights::save_weights(*training_->session, training_->graph, path);
  const graph::ModelWeights& own = weights();
  const std::string prefix = model_.name() + "/";
  const std::string others = !given_weights_.empty() ? given_weights_ : state_ == State::InFile ? file_->path() : "";
  std::optional<weights::FileWeights> file;
  if (!others.empty()) file.emplace(others);
  std::vector<weights::StoredTensor> tensors;
  own.for_each([&](const graph::ModelWeights::Member& member) {
    tensors.push_back({prefix + member.name, member.weight->type().dtype, at_batch(member.weight->type().shape, 1)});
  });
  if (file)
    for (weights::StoredTensor& tensor : file->list_others(own, prefix)) tensors.push_back(std::move(tensor));
  weights::write_weights_file(path, weights::list_of(tensors),
                              [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
                                const auto weight = tensor.name.starts_with(prefix)
                                                        ? own.find(std::string_view(tensor.name).substr(prefix.size()))
                                                        : nullptr;
                                if (weight == nullptr) return file->read_all(tensor, put);
                                write_weight(*weight, tensor.name, put);
                              },
                              {.steps = file ? file->steps() : 0});
}

// The spec that it was trained with, else the one it was loaded with, else that of the last call.
ModelSpec Compiled::spec_to_save() const {
  const auto spec_of = [&](const train::Spec& call) { return *complete(call).own_model; };
  if (last_) return spec_of(*last_);
  if (const auto& stored = model_.state()->stored) {
    ModelSpec spec;
    spec.model = model_;
    spec.can_train = stored->traced->training.has_value();
    return model::replay_spec(spec, stored->traced);
  }
  if (made_for_) return spec_of(*made_for_);
  if (!model_.state()->called_with->empty()) {
    ModelSpec spec;
    spec.model = model_;
    spec.inputs = *model_.state()->called_with;
    return spec;
  }
  throw Error(fmt::format("model '{}' has not seen its inputs yet; call fit, evaluate or predict before it is saved",
                          model_.name()),
              ErrorKind::Usage);
}

void Compiled::save_model(const std::string& path, const Preprocessing& preprocessing) {
  ModelSpec spec = spec_to_save();
  spec.preprocessing = preprocessing;
  if (spec.preprocessing.class_names.empty() && last_ && last_->batches.train)
    spec.preprocessing.class_names = last_->batches.train->class_names();
  if (last_ || made_for_)
    spec.batch = std::max<int64_t>(1, input::count_batches(main_data(last_ ? *last_ : *made_for_)).batch);
  const model::TracedModel traced = model::trace(spec, spec.can_train ? model::Passes::All : model::Passes::Inference);
  if (training_ && training_->place.stages <= 1)
    return store::save_model(path, spec, traced, store::weights_of(*training_->session, training_->graph));
  const graph::ModelWeights& own = weights();
  const std::vector<weights::StoredTensor> tensors = store::list_weights(traced);
  const size_t prefix = model_.name().size() + 1;
  const store::WeightsSource source{
      weights::list_of(tensors),
      [&](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
        const auto weight = own.find(std::string_view(tensor.name).substr(prefix));
        if (weight == nullptr)
          throw Error(fmt::format("model '{}' has no weight '{}' yet; call it, fit or load_weights first",
                                  model_.name(), tensor.name),
                      ErrorKind::Usage);
        write_weight(*weight, tensor.name, put);
      },
      !given_weights_.empty()   ? weights::WeightsReader(given_weights_).steps()
      : state_ == State::InFile ? weights::WeightsReader(file_->path()).steps()
                                : 0};
  store::save_model(path, spec, traced, source);
}

void Compiled::load_weights(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0)
    throw Error(fmt::format("can't read '{}': {}", path, std::generic_category().message(errno)), ErrorKind::BadData);
  model_.state()->weights->load(
      {std::make_shared<const weights::FileWeights>(path), model_.name() + "/", model_.state()->starts_fresh, path});
  if (training_)
    take_state(path);
  else
    given_weights_ = path;
}

}  // namespace plimsoll::fit
