#include "plan/make_plan.h"

#include <gtest/gtest.h>
