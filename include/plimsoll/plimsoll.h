// All that a program needs: include this header and link plimsoll::plimsoll.
#pragma once

#include <plimsoll/callback.h>
#include <plimsoll/dataset.h>
#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/forecast.h>
#include <plimsoll/formats.h>
#include <plimsoll/graph.h>
#include <plimsoll/layers.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/model.h>
#include <plimsoll/ops.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/own_op.h>
#include <plimsoll/predictor.h>
#include <plimsoll/random.h>
#include <plimsoll/scan.h>
#include <plimsoll/session.h>
#include <plimsoll/shrink.h>
#include <plimsoll/tensor.h>
#include <plimsoll/threads.h>
#include <plimsoll/train.h>
#include <plimsoll/types.h>
#include <plimsoll/version.h>
