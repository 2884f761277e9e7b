// All that a program needs: #include <plimsoll/plimsoll.h>, and link plimsoll::plimsoll.
#pragma once

#include <plimsoll/bytes.h>
#include <plimsoll/error.h>
#include <plimsoll/forecast.h>
#include <plimsoll/graph.h>
#include <plimsoll/layers.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/model.h>
#include <plimsoll/ops.h>
#include <plimsoll/optimiser.h>
#include "data/batches.h"
#include "data/prefetch.h"
#include "memory/default_line.h"
#include "memory/process.h"
#include "session/bad_data.h"
#include "session/session.h"
#include "session/weights_file.h"
