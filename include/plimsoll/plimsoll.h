// All that a program needs: #include <plimsoll/plimsoll.h>, and link plimsoll::plimsoll.
#pragma once

#include <plimsoll/bytes.h>
#include <plimsoll/error.h>
#include <plimsoll/forecast.h>
#include <plimsoll/memory_line.h>
#include "autodiff/gradients.h"
#include "autodiff/optimiser.h"
#include "data/batches.h"
#include "data/prefetch.h"
#include "graph/graph.h"
#include "memory/default_line.h"
#include "memory/process.h"
#include "model/layers.h"
#include "model/sequential.h"
#include "model/training.h"
#include "model/zoo.h"
#include "ops/ops.h"
#include "session/bad_data.h"
#include "session/session.h"
#include "session/weights_file.h"
