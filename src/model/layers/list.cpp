// Layers for later use, and the table of all: made of the lines in <plimsoll/layers.inc>.
#include <utility>

#include <plimsoll/layers.h>

namespace plimsoll::layers {
namespace {

// What a Layer keeps of an argument: a text outlives the call that gave it.
template <class T>
T kept(const T& argument) {
  return argument;
}
std::string kept(std::string_view text) { return std::string(text); }

// A caller of a function that takes "const Dense&" passes a Dense.
std::string_view without_reference(std::string_view type) {
  if (type.starts_with("const ")) type.remove_prefix(6);
  if (type.ends_with('&')) type.remove_suffix(1);
  return type;
}

}  // namespace

#define PLIMSOLL_PARAMETER(type, argument, ...) type argument
#define PLIMSOLL_KEPT(type, argument, ...) argument = kept(argument)
#define PLIMSOLL_PASSED(type, argument, ...) argument
#define LAYER(function, description, ...)                                                                         \
  Layer function(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__) __VA_OPT__(, ) Name name) {                       \
    return [PLIMSOLL_EACH(PLIMSOLL_KEPT, __VA_ARGS__) __VA_OPT__(, ) label = std::string(name)](Tensor x, bool) { \
      return layers::function(std::move(x) __VA_OPT__(, ) PLIMSOLL_EACH(PLIMSOLL_PASSED, __VA_ARGS__), label);    \
    };                                                                                                            \
  }
#define TRAINED_LAYER(function, description, ...)                                                                \
  Layer function(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__) __VA_OPT__(, ) Name name) {                      \
    return [PLIMSOLL_EACH(PLIMSOLL_KEPT, __VA_ARGS__) __VA_OPT__(, ) label = std::string(name)](Tensor x,        \
                                                                                                bool training) { \
      return layers::function(std::move(x), training __VA_OPT__(, ) PLIMSOLL_EACH(PLIMSOLL_PASSED, __VA_ARGS__), \
                              label);                                                                            \
    };                                                                                                           \
  }
#define RANDOM_LAYER(function, description, ...)                                                             \
  Layer function(PLIMSOLL_EACH(PLIMSOLL_PARAMETER, __VA_ARGS__), Name name) {                                \
    return [PLIMSOLL_EACH(PLIMSOLL_KEPT, __VA_ARGS__), label = std::string(name)](Tensor x, bool training) { \
      return layers::function(std::move(x), PLIMSOLL_EACH(PLIMSOLL_PASSED, __VA_ARGS__), training, label);   \
    };                                                                                                       \
  }
#define MERGE_LAYER(function, description, ...)
#include <plimsoll/layers.inc>
#undef LAYER
#undef TRAINED_LAYER
#undef RANDOM_LAYER
#undef MERGE_LAYER

std::span<const LayerFunction> functions() {
#define PLIMSOLL_DESCRIBED(type, argument, ...) \
  LayerArgument { without_reference(#type), #argument, #__VA_ARGS__ }
#define PLIMSOLL_LAYER(kind, function, description, ...) \
  LayerFunction{#function, description, LayerFunction::Kind::kind, {PLIMSOLL_EACH(PLIMSOLL_DESCRIBED, __VA_ARGS__)}},
#define LAYER(...) PLIMSOLL_LAYER(Plain, __VA_ARGS__)
#define TRAINED_LAYER(...) PLIMSOLL_LAYER(Trained, __VA_ARGS__)
#define RANDOM_LAYER(...) PLIMSOLL_LAYER(Random, __VA_ARGS__)
#define MERGE_LAYER(...) PLIMSOLL_LAYER(Merge, __VA_ARGS__)
  static const std::vector<LayerFunction> kAll{
#include <plimsoll/layers.inc>
  };
  return kAll;
}

}  // namespace plimsoll::layers
