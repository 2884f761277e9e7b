// A graph made ready to run under a line: steps are planned before memory is taken, and runs allocate nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/forecast.h>
#include <plimsoll/graph.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/optimiser.h>
#include <plimsoll/types.h>

namespace plimsoll {

class Session;
namespace session {
class Engine;
struct State;
Engine* engine_of(Session& session);
}  // namespace session

template <class Range>
concept NumberRange = std::ranges::contiguous_range<Range> && std::ranges::borrowed_range<Range> &&
    Element<std::ranges::range_value_t<Range>>;

// Host memory that a placeholder takes its value from: row-major. The memory must live until the run is over.
struct Feed {
  Tensor placeholder;
  DType dtype;
  const void* data;
  Bytes bytes;
  std::shared_ptr<const void> owner = {};  // keeps the numbers; null: they are borrowed

  // Any contiguous range of numbers that stays where it is: a vector, a span, an array.
  template <NumberRange Numbers>
  Feed(Tensor to, Numbers&& numbers)
      : Feed(to, std::ranges::data(numbers),
             static_cast<Bytes>(std::ranges::size(numbers) * sizeof(std::ranges::range_value_t<Numbers>))) {}
  // A temporary vector is kept for as long as the feed is.
  template <Element T>
  Feed(Tensor to, std::vector<T>&& numbers) : Feed(to, numbers.data(), static_cast<Bytes>(numbers.size() * sizeof(T))) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(numbers));
    data = kept->data();
    owner = kept;
  }
  template <Element T>
  Feed(Tensor to, const T* numbers, Bytes size) : Feed(to, dtype_of<T>(), numbers, size) {}
  // Memory whose type the compiler does not know.
  Feed(Tensor to, DType type, const void* from, Bytes size) : placeholder(to), dtype(type), data(from), bytes(size) {}
};

// A fetched value, in place: it changes with the next run, and can't be read any more when the session is closed.
class View {
 public:
  View(DType type, const Dims& sizes, const void* data, Bytes size, std::shared_ptr<const std::atomic<bool>> is_open)
      : dtype(type), dims(sizes), bytes(size), data_(data), is_open_(std::move(is_open)) {}

  DType dtype;
  Dims dims;
  Bytes bytes;

  // These throw Error when the session is closed, or the value is of another type.
  const void* data() const;
  template <Element T>
  std::span<const T> as() const {
    expect_type(dtype_of<T>());
    return {static_cast<const T*>(data()), static_cast<size_t>(bytes) / sizeof(T)};
  }
  std::span<const float> floats() const { return as<float>(); }
  // The only element; throws Error when there are several.
  template <Element T>
  T item() const {
    const std::span<const T> all = as<T>();
    if (all.size() != 1) throw_not_single(all.size());
    return all[0];
  }

 private:
  void expect_type(DType wanted) const;
  [[noreturn]] static void throw_not_single(size_t elements);

  const void* data_;
  std::shared_ptr<const std::atomic<bool>> is_open_;
};

// The fetched values of one run, in the order of StepSpec::fetch. Valid until the next run of the step.
class Results {
 public:
  explicit Results(std::span<const View> views) : views_(views) {}
  size_t size() const { return views_.size(); }
  const View& operator[](size_t i) const;  // throws Error when there is none
  auto begin() const { return views_.begin(); }
  auto end() const { return views_.end(); }

 private:
  std::span<const View> views_;
};

struct SessionOptions {
  // Held beside the arena for buffers of the input pipeline; Session::data_line hands them out.
  Bytes data_bytes = 0;
  // Steps read feeds where they lie, and the arena has no place for them. Each feed must then be aligned to kAlignment
  // bytes, be readable to the next multiple of that, and stay as it is until the run is over: batches of a pipeline
  // are. False: a run copies its feeds first.
  bool reads_feeds_in_place = false;
  // On a line that covers the process, room is left to plan a step for another batch size while the session is open.
  bool plans_other_batches = true;
  // Plans that run() makes for other batch sizes hold at most this together; the least recently used goes first.
  Bytes plan_cache_bytes = 16 * MiB;
  // Checks all that each operator writes: a step that fetches a number which is not finite, or leaves one in a
  // variable, throws Error(BadNumbers) with the first operator that wrote one. Costs a pass over all values.
  bool finds_bad_numbers = false;
  uint64_t seed = 0;
  Levers levers = {};
  bool masks = true;  // keep one bit an element instead of the output of relu or clip where that is enough
  // In what type values are kept between their uses. With mixed_float16 give minimize an Optimiser that scales_loss.
  // The optimiser's state has a setting of its own: Optimiser::state_bits.
  Policy policy = {};
  // In what type matrices and filters that no node of the graph updates are kept: BF16, or I8 (a scale for each 64);
  // lossy. Small ones stay f32.
  DType frozen_type = DType::F32;
  // A folder on a disk where a scratch file may be made, and how large it may grow; empty: nothing is spilled.
  std::string scratch_folder = {};
  Bytes disk_limit = 0;
};

// What one kind of step computes: values to hand out and variables to change.
struct StepSpec {
  std::vector<Tensor> fetch = {};
  Updates update = {};
  int64_t batch = 1;
};

// A planned step of a session: a handle that is cheap to copy. Throws Error when its session is gone.
class Step {
 public:
  // One feed for each placeholder that the step reads, of its type. Fewer or more samples than the planned batch (the
  // last batch of an epoch) are planned when they first come. Throws Error(BadData) after a step that met a label or a
  // row outside of its range: these took no part in it.
  Results operator()(std::initializer_list<Feed> feeds) { return (*this)({feeds.begin(), feeds.size()}); }
  Results operator()(std::span<const Feed> feeds);

  int64_t batch() const;  // as planned
  // Peak, predicted time and what was done to fit. The peak is that of all steps of the session.
  Forecast forecast() const;

 private:
  friend class Session;
  Step(std::shared_ptr<session::State> state, size_t number) : state_(std::move(state)), number_(number) {}
  session::State& state() const;  // throws Error when it was moved away
  std::shared_ptr<session::State> state_;
  size_t number_;
};

// For one thread at a time: a call from a second one while a step runs, or a variable is read or set, throws Error.
// Several sessions, on one line or on several, may be used by as many threads. The graph must outlive the session:
// when it is destroyed first, every later use but close() throws Error. A session that was moved away throws Error,
// too.
//
// Weights of a Model in the graph are those of the model: a session begins with them as they are, and what its steps
// change is changed for all that use the model.
class Session {
 public:
  Session(Graph& graph, const MemoryLine& line, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Plans one more step and reserves its arena; takes no memory for tensors yet. Throws DoesNotFit when it can't be
  // planned under the line together with the steps before.
  Step step(const StepSpec& spec);
  // The same without adding it, where not fitting is an answer: Forecast::fits(). For a session that is not open yet.
  Forecast forecast(const StepSpec& spec);

  // Takes the arena, touches it, and gives every variable its initial value. The first run does it when needed. From
  // then on the graph can't grow.
  void open();
  // Gives every byte of the line back. A closed session can't run again.
  void close();
  bool is_open() const;

  // Row-major numbers of a variable, which the range must match in type and size.
  template <NumberRange Numbers>
  void get(Tensor variable, Numbers&& into) {
    read(variable, dtype_of<std::ranges::range_value_t<Numbers>>(), std::ranges::data(into),
         static_cast<Bytes>(std::ranges::size(into) * sizeof(*std::ranges::data(into))));
  }
  template <NumberRange Numbers>
  void set(Tensor variable, Numbers&& from) {
    write(variable, dtype_of<std::ranges::range_value_t<Numbers>>(), std::ranges::data(from),
          static_cast<Bytes>(std::ranges::size(from) * sizeof(*std::ranges::data(from))));
  }

  // All variables, the optimiser's too, and the number of training steps as a safetensors file. A crash leaves the old
  // file or the new one; a damaged file or one of another model changes nothing.
  void save(const std::string& path);
  void load(const std::string& path);

  // Training steps so far; random operators draw from this number.
  int64_t step_count() const;

  const MemoryLine& line() const;
  MemoryLine& data_line();    // a share of SessionOptions::data_bytes
  Bytes arena_bytes() const;  // what open() takes
  Bytes peak_bytes() const;   // of arena, input buffers, runtime and planning
  Bytes file_bytes() const;   // of the scratch file

 private:
  friend session::Engine* session::engine_of(Session& session);
  void read(Tensor variable, DType dtype, void* into, Bytes bytes);
  void write(Tensor variable, DType dtype, const void* from, Bytes bytes);
  session::State& state() const;
  std::shared_ptr<session::State> state_;
};

}  // namespace plimsoll
