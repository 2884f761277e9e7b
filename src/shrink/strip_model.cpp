// Model::strip and Model::bytes.
#include <filesystem>
#include <memory>

#include <plimsoll/model.h>
#include <plimsoll/shrink.h>
#include "fit/compiled.h"
#include "memory/temporary_file.h"
#include "model/model_state.h"
#include "shrink/strip.h"

namespace plimsoll {
namespace shrink {
namespace {

// Directories that go with their owner.
class TemporaryModels {
 public:
  explicit TemporaryModels(const std::string& scratch) { name_.create(scratch, "plimsoll-strip"); }
  TemporaryModels(const TemporaryModels&) = delete;
  TemporaryModels& operator=(const TemporaryModels&) = delete;
  ~TemporaryModels() {
    drop(dense());
    drop(stripped());
  }
  std::string dense() const { return name_.path() + ".dense"; }
  std::string stripped() const { return name_.path() + ".stripped"; }
  static void drop(const std::string& path) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

 private:
  memory::TemporaryFile name_;
};

// The weights of a stripped model are read from its directory at its first call.
struct KeptSource {
  std::shared_ptr<const model::StoredSource> source;
  std::shared_ptr<const TemporaryModels> models;
};

}  // namespace
}  // namespace shrink

Model Model::strip() const { return strip({}, nullptr); }

Model Model::strip(const StripOptions& options, StripReport* report) const {
  const auto models = std::make_shared<const shrink::TemporaryModels>(options.scratch);
  save(models->dense());
  const StripReport done = shrink::strip_model(models->dense(), models->stripped());
  shrink::TemporaryModels::drop(models->dense());
  if (report != nullptr) *report = done;
  Model small = load(models->stripped());
  const auto kept = std::make_shared<const shrink::KeptSource>(shrink::KeptSource{small.state()->stored, models});
  small.state_->stored = std::shared_ptr<const model::StoredSource>(kept, kept->source.get());
  // The stripped model is evaluated with the options of the model it was made of.
  const fit::Compiled& compiled = fit::compiled_of(*this);
  if (compiled.is_compiled()) {
    CompileOptions as_before = compiled.options();
    as_before.pruning.reset();
    small.compile(as_before);
  }
  return small;
}

ModelBytes Model::bytes() const {
  const auto& stored = state_ != nullptr ? state_->stored : nullptr;
  if (stored != nullptr) return shrink::bytes_of(*stored->traced);
  return shrink::bytes_of(model::trace(fit::compiled_of(*this).spec_to_save(), model::Passes::Inference));
}

}  // namespace plimsoll
