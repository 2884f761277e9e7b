#include "lower/fuse.h"

namespace plimsoll {

void fuse(Draft& draft) { fuse_activation(draft); }

}  // namespace plimsoll
