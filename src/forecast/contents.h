// What a built-in model is made of, for its inspection.
#pragma once

#include <string>

#include "report/contents.h"
#include "train/spec.h"

namespace plimsoll::store {
struct StoredModel;
}

namespace plimsoll::forecast {

// A stored model layer by layer, zeros counted: reads all of its weights in pieces, once they are known to be whole.
report::StoredModelFacts inspect_stored(const store::StoredModel& stored);

report::ModelFacts inspect_model(const train::Spec& spec);
// The graph of its training and inference passes, as text.
std::string model_graph_text(const train::Spec& spec);

}  // namespace plimsoll::forecast
