// All that a program needs: include this header and link plimsoll::plimsoll.
#pragma once

#include <plimsoll/bytes.h>
#include <plimsoll/callback.h>
#include <plimsoll/checkpoint.h>
#include <plimsoll/dataset.h>
#include <plimsoll/dtype.h>
#include <plimsoll/error.h>
#include <plimsoll/forecast.h>
#include <plimsoll/formats.h>
#include <plimsoll/graph.h>
#include <plimsoll/layers.h>
#include <plimsoll/levers.h>
#include <plimsoll/log_files.h>
#include <plimsoll/loss.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/metric.h>
#include <plimsoll/model.h>
#include <plimsoll/ops.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/policy.h>
#include <plimsoll/schedule.h>
#include <plimsoll/session.h>
#include <plimsoll/tensor.h>
#include <plimsoll/train.h>
#include <plimsoll/version.h>
