// All that a program needs: #include <plimsoll/plimsoll.h>, and link plimsoll::plimsoll.
#pragma once

#include "autodiff/gradients.h"
#include "base/bytes.h"
#include "base/error.h"
#include "data/batches.h"
#include "data/prefetch.h"
#include "graph/graph.h"
#include "memory/default_line.h"
#include "memory/line.h"
#include "model/layers.h"
#include "model/sequential.h"
#include "model/zoo.h"
#include "ops/ops.h"
#include "session/fit.h"
#include "session/session.h"
