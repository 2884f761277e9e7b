// The description of one stage of a dataset: what its elements are and what it will hold, before any memory is taken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <plimsoll/dataset.h>
#include <plimsoll/memory_line.h>
#include "input/stream.h"

namespace plimsoll::input {

class Recipe;
using RecipePtr = std::shared_ptr<const Recipe>;

// What a stage takes at least, and what it can use beyond that.
struct Holding {
  Bytes bytes = 0;
  int threads = 0;
  Bytes most_bytes = 0;   // with AUTOTUNE; 0: the same
  Bytes whole_bytes = 0;  // beyond most_bytes, useful only as a whole: all elements of a source in memory
  Bytes kept_bytes = 0;   // that the description itself holds, with or without an iteration: numbers that were moved in
};

// One iteration being built: where its memory comes from, and a meter for each of its stages, from the source on.
struct Build {
  MemoryLine& line;
  std::deque<Meter>& meters;
  std::vector<Stream*>& tunable;  // streams whose grow() may help, filled while building
};

class Recipe {
 public:
  Recipe(ElementSpec element, std::vector<RecipePtr> inputs)
      : element_(std::move(element)), inputs_(std::move(inputs)) {}
  virtual ~Recipe() = default;

  const ElementSpec& element() const { return element_; }
  const std::vector<RecipePtr>& inputs() const { return inputs_; }
  const Recipe& input() const { return *inputs_.front(); }

  virtual std::string text() const = 0;  // of this stage alone: "batch(32)"; threads are no part of it
  virtual std::string identity() const { return text(); }  // in which a source tells its contents instead of its path
  virtual int64_t size() const = 0;                        // as Dataset::size
  virtual int64_t most_size() const { return size(); }     // a bound where only that is known
  virtual bool is_random_access() const { return false; }  // its stream is indexed
  virtual Holding holding() const { return {}; }
  virtual int64_t wanted_rows() const { return 1; }  // rows to pull at once, so that the threads of a map have work
  virtual bool lends() const { return false; }       // elements lie in the stage's own slots: Stream::lend
  virtual const std::vector<std::string>* classes() const { return nullptr; }  // of a source: names of its labels
  // For a stage that makes one element of each of its input: the same stage over another input. Null for all others.
  virtual RecipePtr over(const RecipePtr& /*input*/) const { return nullptr; }

  // The running stage; its input streams are made first.
  std::unique_ptr<Stream> start(Build& build) const;

 protected:
  virtual std::unique_ptr<Stream> make(Build& build, Meter& meter,
                                       std::vector<std::unique_ptr<Stream>> inputs) const = 0;

 private:
  const ElementSpec element_;
  const std::vector<RecipePtr> inputs_;
};

// A stage over one input that leaves elements as they are, and gives no more of them.
class SameElements : public Recipe {
 public:
  explicit SameElements(const RecipePtr& input) : Recipe(input->element(), {input}) {}
  int64_t most_size() const override { return size() >= 0 ? size() : input().most_size(); }
};

// Throws Error(Usage) for names used twice, sizes that make no sense, and a shape with -1 without `most`; fills `most`.
ElementSpec checked(ElementSpec spec);

// A spec that holds elements of both: sizes that differ become -1. Throws Error(Usage) for different names, types or
// ranks; `stage` is for its text.
ElementSpec common_spec(const ElementSpec& a, const ElementSpec& b, const std::string& stage);

// True for random access, also below maps: stages that choose or order elements may go below those maps.
bool can_be_ordered(const Recipe& recipe);
// Adds a stage that only chooses or orders elements below the maps at the end of a chain with random access, so that
// maps compute only chosen elements, and the threads of a map see many rows at once.
RecipePtr below_maps(const RecipePtr& recipe, const std::function<RecipePtr(const RecipePtr& input)>& add);

// The whole chain as text.
std::string chain_text(const Recipe& recipe);
// A number by which a state or a cache knows the data and stages that it belongs to. Reads some of the data.
uint64_t chain_identity(const Recipe& recipe);
// Every stage, from the source on.
void for_each_stage(const Recipe& recipe, const std::function<void(const Recipe& stage)>& visit);

}  // namespace plimsoll::input
