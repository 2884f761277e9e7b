// Memory against time, as a table with bars and as JSON.
#pragma once

#include <string>
#include <vector>

#include "plan/curve.h"
#include "report/plan_report.h"

namespace plimsoll::report {

struct Curve {
  std::string model;
  int64_t batch = 1;
  Bytes around_arena = 0;                // what the process takes beside the arena; part of every line
  std::vector<plan::CurvePoint> points;  // the smallest line first
};

std::string curve_text(const Curve& curve);
std::string curve_json(const Curve& curve, int indent = kOneLine);

}  // namespace plimsoll::report
