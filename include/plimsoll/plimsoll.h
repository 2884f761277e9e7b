// All that a program needs: #include <plimsoll/plimsoll.h>, and link plimsoll::plimsoll.
#pragma once

#include "autodiff/gradients.h"
#include "base/bytes.h"
#include "base/error.h"
#include "graph/graph.h"
#include "ops/ops.h"
