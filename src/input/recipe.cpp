#include "input/recipe.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"

namespace plimsoll::input {
namespace {

// Small enough that bytes times slots can't overflow.
constexpr Bytes kLargestComponent = std::numeric_limits<Bytes>::max() >> 24;

void check(const Component& component) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("component '{}' {}: {}", component.name, to_string(component.shape), why),
                ErrorKind::Usage);
  };
  if (component.name.empty()) refuse("it has no name; give one");
  if (component.most.rank() != component.shape.rank())
    refuse(fmt::format("its largest sizes {} are of another rank", to_string(component.most)));
  Bytes bytes = size_of(component.dtype);
  for (int axis = 0; axis < component.shape.rank(); ++axis) {
    const int64_t size = component.shape[axis], most = component.most[axis];
    if (size < -1) refuse("a size is a number, or -1 where it differs between elements");
    if (size == -1 && most < 0) refuse("a size that differs needs a largest size; give it in Component::most");
    if (size >= 0 && most != size) refuse(fmt::format("its largest sizes {} differ", to_string(component.most)));
    if (most > 0 && bytes > kLargestComponent / most) refuse("it is too large to count its bytes");
    bytes *= std::max<int64_t>(most, 1);
  }
}

std::string join_chain(const Recipe& recipe, std::string (Recipe::*text)() const) {
  if (recipe.inputs().empty()) return (recipe.*text)();
  if (recipe.inputs().size() == 1) return join_chain(recipe.input(), text) + "." + (recipe.*text)();
  std::string inputs;
  for (const RecipePtr& input : recipe.inputs()) inputs += (inputs.empty() ? "" : ", ") + join_chain(*input, text);
  return fmt::format("{}({})", (recipe.*text)(), inputs);
}

}  // namespace

std::unique_ptr<Stream> Recipe::start(Build& build) const {
  std::vector<std::unique_ptr<Stream>> inputs;
  for (const RecipePtr& input : inputs_) inputs.push_back(input->start(build));
  Meter& meter = build.meters.emplace_back();
  meter.bytes = holding().bytes;
  meter.threads = holding().threads;
  return make(build, meter, std::move(inputs));
}

ElementSpec checked(ElementSpec spec) {
  if (spec.empty()) throw Error("an element needs at least one component", ErrorKind::Usage);
  for (size_t i = 0; i < spec.size(); ++i) {
    if (spec[i].most.empty()) spec[i].most = spec[i].shape;
    check(spec[i]);
    for (size_t j = 0; j < i; ++j)
      if (spec[j].name == spec[i].name)
        throw Error(fmt::format("two components are named '{}'; give each a name of its own", spec[i].name),
                    ErrorKind::Usage);
  }
  return spec;
}

ElementSpec common_spec(const ElementSpec& a, const ElementSpec& b, const std::string& stage) {
  bool is_alike = a.size() == b.size();
  ElementSpec common = a;
  for (size_t i = 0; is_alike && i < a.size(); ++i) {
    is_alike = a[i].name == b[i].name && a[i].dtype == b[i].dtype && a[i].shape.rank() == b[i].shape.rank();
    for (int axis = 0; is_alike && axis < a[i].shape.rank(); ++axis) {
      if (a[i].shape[axis] != b[i].shape[axis]) common[i].shape[axis] = -1;
      common[i].most[axis] = std::max(a[i].most[axis], b[i].most[axis]);
    }
  }
  if (!is_alike)
    throw Error(fmt::format("{}: elements of {} and of {} don't go together; give both the same names and types", stage,
                            to_string(a), to_string(b)),
                ErrorKind::Usage);
  return common;
}

bool can_be_ordered(const Recipe& recipe) {
  if (recipe.is_random_access()) return true;
  return recipe.inputs().size() == 1 && recipe.over(recipe.inputs().front()) != nullptr &&
         can_be_ordered(recipe.input());
}

RecipePtr below_maps(const RecipePtr& recipe, const std::function<RecipePtr(const RecipePtr& input)>& add) {
  if (recipe->is_random_access() || !can_be_ordered(*recipe)) return add(recipe);
  return recipe->over(below_maps(recipe->inputs().front(), add));
}

std::string chain_text(const Recipe& recipe) { return join_chain(recipe, &Recipe::text); }

uint64_t chain_identity(const Recipe& recipe) { return hash_text(join_chain(recipe, &Recipe::identity)); }

void for_each_stage(const Recipe& recipe, const std::function<void(const Recipe& stage)>& visit) {
  for (const RecipePtr& input : recipe.inputs()) for_each_stage(*input, visit);
  visit(recipe);
}

}  // namespace plimsoll::input
