// augment and resize: maps over one component that holds images; the others are copied.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "base/random.h"
#include "input/image/image_values.h"

namespace plimsoll {
namespace {

// A component that holds images, and the shape that it gets.
struct ImagePlace {
  size_t component = 0;
  input::ImageLayout layout;

  ElementSpec resized(ElementSpec spec, input::ImageSize size) const {
    Component& images = spec[component];
    images.shape[layout.channels_first ? 1 : 0] = size.height;
    images.shape[layout.channels_first ? 2 : 1] = size.width;
    images.most = {};
    return spec;
  }
};

ImagePlace find_images(const ElementSpec& spec, const ImageComponent& images, const char* stage) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("{}: {}; the elements are {}", stage, why, to_string(spec)), ErrorKind::Usage);
  };
  const auto found = std::ranges::find_if(spec, [&](const Component& one) { return one.name == images.name; });
  if (found == spec.end()) refuse(fmt::format("there is no component '{}'", images.name));
  const Dims& shape = found->shape;
  if (found->dtype != DType::U8 && found->dtype != DType::F32)
    refuse(fmt::format("'{}' is {}, and images are u8 or f32", images.name, name_of(found->dtype)));
  if (!found->is_fixed() || shape.rank() < 2 || shape.rank() > 3 || element_count(shape) == 0)
    refuse(fmt::format("'{}' is no image of one size; put this stage before batch, or map it to one", images.name));
  const bool has_channels = shape.rank() == 3, first = images.channels_first && has_channels;
  return {.component = static_cast<size_t>(found - spec.begin()),
          .layout = {.size = {shape[first ? 1 : 0], shape[first ? 2 : 1]},
                     .channels = has_channels ? shape[first ? 0 : 2] : 1,
                     .dtype = found->dtype,
                     .channels_first = first}};
}

void copy_others(const ElementView& from, const ElementSlot& to, size_t but) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (i == but) continue;
    to.set_dims(i, from.dims(i));
    std::memcpy(to.data(i), from.data(i), static_cast<size_t>(from.bytes(i)));
  }
}

void check(const AugmentOptions& options, const input::ImageSize& padded) {
  const auto refuse = [](const std::string& why) { throw Error("augment: " + why, ErrorKind::Usage); };
  if (options.padding < 0) refuse(fmt::format("a padding of {} makes no sense; give at least 0", options.padding));
  const auto check_crop = [&](int64_t crop, int64_t side, const char* name) {
    if (crop < 0 || crop > side)
      refuse(fmt::format("a {} of {} can't be cut out of {}; give a smaller one, or padding", name, crop, side));
  };
  check_crop(options.crop_height, padded.height, "height");
  check_crop(options.crop_width, padded.width, "width");
  for (const auto& [value, name] : {std::pair(options.brightness, "brightness"), {options.contrast, "contrast"}})
    if (!(value >= 0 && value <= 1)) refuse(fmt::format("{} of {}; give a part between 0 and 1", name, value));
}

// Independent draws of one element.
class Draws {
 public:
  explicit Draws(uint64_t key) : sequence_(key) {}
  int64_t up_to(int64_t most) { return sequence_.below(most + 1); }
  bool flips() { return sequence_.next() % 2 == 1; }
  float between(float least, float most) {
    return least + (most - least) * static_cast<float>(unit_real(sequence_.next()));
  }

 private:
  RandomSequence sequence_;
};

}  // namespace

Dataset Dataset::augment(const AugmentOptions& options, int threads) const {
  const ImagePlace images = find_images(element(), options.images, "augment");
  const input::ImageSize padded{images.layout.size.height + 2 * options.padding,
                                images.layout.size.width + 2 * options.padding};
  check(options, padded);
  const input::ImageSize cut{options.crop_height > 0 ? options.crop_height : padded.height,
                             options.crop_width > 0 ? options.crop_width : padded.width};
  return random_map(
      images.resized(element(), cut),
      [images, options, padded, cut](const ElementView& from, const ElementSlot& to, uint64_t key) {
        copy_others(from, to, images.component);
        // All draws are made, whatever the options, so that one option does not change what another draws.
        Draws draws(key);
        input::ImageCut part{.y = draws.up_to(padded.height - cut.height) - options.padding,
                             .x = draws.up_to(padded.width - cut.width) - options.padding,
                             .size = cut,
                             .flips = draws.flips() && options.flips};
        const float brightness = draws.between(-options.brightness, options.brightness);
        const float contrast = draws.between(1 - options.contrast, 1 + options.contrast);
        input::cut_image(images.layout, from.data(images.component), part, to.data(images.component));
        input::ImageLayout layout = images.layout;
        layout.size = cut;
        if (options.brightness > 0 || options.contrast > 0)
          input::change_light(layout, brightness, contrast, to.data(images.component));
      },
      options.seed, threads);
}

Dataset Dataset::resize(const ImageResize& options, int threads) const {
  const ImagePlace images = find_images(element(), options.images, "resize");
  const input::ImageSize size{options.height, options.width};
  if (size.height < 1 || size.width < 1 || options.method == ResizeMethod::None)
    throw Error(fmt::format("resize: {} x {} needs a size of at least 1 and a method", size.height, size.width),
                ErrorKind::Usage);
  return map(
      images.resized(element(), size),
      [images, resizer = input::ValueResizer(images.layout, size, options.method)](const ElementView& from,
                                                                                   const ElementSlot& to) {
        copy_others(from, to, images.component);
        resizer.run(from.data(images.component), to.data(images.component));
      },
      threads);
}

}  // namespace plimsoll
