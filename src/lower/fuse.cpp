#include "lower/fuse.h"

namespace plimsoll {

void fuse(Draft& draft) {
  fuse_activation(draft);
  fuse_norm_backward(draft);
  fuse_elementwise(draft);
}

}  // namespace plimsoll
