#include "input/opening/data.h"

#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/opening/data_places.h"
#include "input/opening/detect.h"
#include "input/opening/open_half.h"

namespace plimsoll::input {
namespace {

// What the model says of names.
KnownNames names_of(const ModelSpec& model) {
  KnownNames known{.from = fmt::format("the model '{}'", model.name())};
  const Preprocessing& facts = model.preprocessing;
  if (!facts.class_names.empty()) known.classes = facts.class_names;
  if (!facts.columns.empty()) known.columns = facts.columns;
  known.label = facts.label;
  return known;
}

// What is not known yet is as a half has it.
void learn(const KnownNames& half, KnownNames& known) {
  if (known.classes && known.columns) return;
  known.from = half.from;
  if (!known.classes) known.classes = half.classes;
  if (!known.columns) known.columns = half.columns;
  if (known.label.empty()) known.label = half.label;
}

class HalvesOpener {
 public:
  HalvesOpener(const DataSpec& spec, const ModelSpec& model) : spec_(spec), model_(model), known_(names_of(model)) {}

  // The first half that is opened sets the path, kind and names of the data.
  std::optional<Samples> open(const HalfPlace& place) {
    if (!place.is_given()) return std::nullopt;
    OpenedHalf half = open_half(place, spec_, model_, known_);
    if (data_.kind.empty()) {
      data_.path = spec_.path.empty() ? place.x : spec_.path;
      const DataKind whole = spec_.path.empty() ? DataKind::Array : find_kind(spec_.path);
      data_.kind = name_of(whole == DataKind::None ? half.kind : whole);
    }
    learn(half.names, known_);
    data_.classes = known_.classes.value_or(std::vector<std::string>());
    data_.columns = known_.columns.value_or(std::vector<std::string>());
    data_.label = known_.label;
    return std::move(half.samples);
  }

  // Names that nobody said are those of the half that trains, also where only the other one is read.
  void learn_from(const HalfPlace& place) {
    if (!place.is_given() || known_.classes || known_.columns) return;
    learn(open_half(place, spec_, model_, known_).names, known_);
  }

  Data& data() { return data_; }

 private:
  const DataSpec& spec_;
  const ModelSpec& model_;
  KnownNames known_;
  Data data_;
};

}  // namespace

Data open_data(const DataSpec& spec, const ModelSpec& model) {
  const Places places = find_places(spec);
  HalvesOpener halves(spec, model);
  halves.data().train = halves.open(places.train);
  halves.data().test = halves.open(places.test);
  return std::move(halves.data());
}

Data open_test_data(const DataSpec& spec, const ModelSpec& model) {
  const Places places = find_places(spec);
  HalvesOpener halves(spec, model);
  if (places.test.is_given()) halves.learn_from(places.train);
  halves.data().test = halves.open(places.test.is_given() ? places.test : places.train);
  return std::move(halves.data());
}

}  // namespace plimsoll::input
