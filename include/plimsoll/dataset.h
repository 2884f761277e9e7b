// A lazy description of input data: a source and stages after it, as in tf.data. Memory is taken when it is iterated on
// a line, in fixed slots; bytes() says how much before anything is read.
//
//   Dataset train = Dataset::files("x.npy", "y.npy").shuffle().batch(32).prefetch(2);
//   for (const ElementView& batch : train.on(line)) use(batch.as<float>("x"), batch.as<uint8_t>("y"));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/formats.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/session.h>
#include <plimsoll/tensor.h>

namespace plimsoll {

class Dataset;
class Iteration;
namespace input {
struct Column;
class Recipe;
class Running;
std::shared_ptr<const Recipe> recipe_of(const Dataset& dataset);
Dataset make_dataset(std::shared_ptr<const Recipe> recipe);
Iteration start_iteration(const Dataset& dataset, MemoryLine& share);
}  // namespace input

// For a number of threads or slots: as many as the slowest stage needs, within the share of the line.
constexpr int AUTOTUNE = -1;

// One named tensor of an element.
struct Component {
  std::string name;
  DType dtype = DType::F32;
  Dims shape = {};  // -1 where it differs between elements
  Dims most = {};   // the largest sizes; empty where the shape says it all

  bool is_fixed() const;  // every element has the same shape
  Bytes bytes() const;    // of the largest
  friend bool operator==(const Component&, const Component&) = default;
};
using ElementSpec = std::vector<Component>;
std::string to_string(const ElementSpec& spec);  // "x f32[28,28], y u8[]"

// The values of one element, in place.
class ElementView {
 public:
  ElementView(const ElementSpec& spec, const input::Column* columns, int64_t row)
      : spec_(&spec), columns_(columns), row_(row) {}

  size_t size() const { return spec_->size(); }
  const ElementSpec& spec() const { return *spec_; }
  size_t find(std::string_view name) const;  // throws Error that names the components there are

  Dims dims(size_t component) const;
  Dims dims(std::string_view name) const { return dims(find(name)); }
  const void* data(size_t component) const;
  const void* data(std::string_view name) const { return data(find(name)); }
  Bytes bytes(size_t component) const;
  Bytes bytes(std::string_view name) const { return bytes(find(name)); }
  // A batch for a step of a session, which may read it in place.
  Feed feed(Tensor placeholder, std::string_view name) const;
  // Throw Error when the component is of another type.
  template <Element T>
  std::span<const T> as(size_t component) const {
    expect_type(component, dtype_of<T>());
    return {static_cast<const T*>(data(component)), static_cast<size_t>(bytes(component)) / sizeof(T)};
  }
  template <Element T>
  std::span<const T> as(std::string_view name) const {
    return as<T>(find(name));
  }

 private:
  friend class ElementSlot;
  void expect_type(size_t component, DType wanted) const;

  const ElementSpec* spec_;
  const input::Column* columns_;
  int64_t row_;
};

// The memory that one element is written to.
class ElementSlot {
 public:
  ElementSlot(const ElementSpec& spec, const input::Column* columns, int64_t row) : view_(spec, columns, row) {}

  size_t size() const { return view_.size(); }
  const ElementSpec& spec() const { return view_.spec(); }
  size_t find(std::string_view name) const { return view_.find(name); }
  const ElementView& view() const { return view_; }

  // Room for the sizes that were set, else for the largest.
  void* data(size_t component) const { return const_cast<void*>(view_.data(component)); }
  template <Element T>
  std::span<T> as(size_t component) const {
    const std::span<const T> room = view_.as<T>(component);
    return {const_cast<T*>(room.data()), room.size()};
  }
  template <Element T>
  std::span<T> as(std::string_view name) const {
    return as<T>(find(name));
  }
  // The sizes of this element, where they differ between elements. Throws Error(BadData) for sizes that the component
  // can't have.
  void set_dims(size_t component, const Dims& dims) const;

 private:
  ElementView view_;
};

// Where an iteration stands. The same dataset goes on from here with the same elements, whatever its threads.
struct DatasetState {
  uint64_t dataset = 0;  // tells one dataset from another
  uint64_t epoch = 0;
  int64_t position = 0;  // elements of this epoch handed out
  bool operator==(const DatasetState&) const = default;
};

// A dataset under way, for one consumer. Dropping it ends its threads and gives its bytes back.
class Iteration {
 public:
  Iteration(Iteration&&) noexcept;
  Iteration& operator=(Iteration&&) noexcept;
  ~Iteration();

  // The next element, in place until the following call; null at the end of the epoch. What went wrong in a thread is
  // thrown here, after the elements before it.
  const ElementView* next();

  DatasetState state() const;
  // Throws Error(Usage) for a state of another dataset, or a position that does not exist.
  void seek(const DatasetState& state);
  void start_epoch(uint64_t epoch);

  const ElementSpec& element() const;
  std::vector<StageReport> stages() const;  // from the source on
  Bytes bytes() const;                      // held now

  // for (const ElementView& element : iteration): to the end of the epoch.
  struct End {};
  class Cursor {
   public:
    explicit Cursor(Iteration& of) : of_(of), at_(of.next()) {}
    const ElementView& operator*() const { return *at_; }
    Cursor& operator++() {
      at_ = of_.next();
      return *this;
    }
    friend bool operator==(const Cursor& cursor, End) { return cursor.at_ == nullptr; }

   private:
    Iteration& of_;
    const ElementView* at_;
  };
  Cursor begin() { return Cursor(*this); }
  static End end() { return {}; }

 private:
  friend class Dataset;
  friend Iteration input::start_iteration(const Dataset& dataset, MemoryLine& share);
  explicit Iteration(std::unique_ptr<input::Running> running);
  std::unique_ptr<input::Running> running_;
};

// Numbers that stay the caller's: see borrow.
template <Element T>
struct Borrowed {
  std::span<const T> numbers;
};

// Memory that is read where it lies, without a copy: it must live, and stay as it is, for as long as a dataset of it is
// used.
//   Dataset::slices({{"x", borrow(pixels), {count, 784}}});
template <std::ranges::contiguous_range Numbers>
requires std::ranges::borrowed_range<Numbers> && Element<std::ranges::range_value_t<Numbers>>
auto borrow(Numbers&& numbers) {
  using T = std::ranges::range_value_t<Numbers>;
  return Borrowed<T>{{std::ranges::data(numbers), std::ranges::size(numbers)}};
}

// Numbers in memory, the first dimension counts elements: kept, from a vector that is moved in or copied, or borrowed.
// Each number is an element; or `sizes` are the dimensions. Those that are kept count on the line of an iteration.
struct NamedArray {
  std::string name;
  DType dtype;
  Dims dims;
  const void* data;
  Bytes bytes;
  std::shared_ptr<const void> owner = {};  // keeps the numbers as long as the dataset; null: they are borrowed

  template <Element T>
  NamedArray(std::string_view as, std::vector<T> numbers, const Dims& sizes = {})
      : NamedArray(as, Borrowed<T>{{}}, sizes.empty() ? Dims{static_cast<int64_t>(numbers.size())} : sizes) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(numbers));
    data = kept->data();
    bytes = static_cast<Bytes>(kept->size() * sizeof(T));
    owner = kept;
  }
  template <Element T>
  NamedArray(std::string_view as, Borrowed<T> borrowed, const Dims& sizes = {})
      : name(as),
        dtype(dtype_of<T>()),
        dims(sizes.empty() ? Dims{static_cast<int64_t>(borrowed.numbers.size())} : sizes),
        data(borrowed.numbers.data()),
        bytes(static_cast<Bytes>(borrowed.numbers.size_bytes())) {}
  // Memory whose type the compiler does not know, and what keeps it.
  NamedArray(std::string_view as, DType type, const Dims& sizes, const void* from, Bytes size,
             std::shared_ptr<const void> keeps)
      : name(as), dtype(type), dims(sizes), data(from), bytes(size), owner(std::move(keeps)) {}
  static NamedArray borrowed(std::string_view as, DType type, const Dims& sizes, const void* from, Bytes size) {
    return {as, type, sizes, from, size, nullptr};
  }
  // Arrays and spans do not say who keeps them: give borrow(numbers), or move a vector in.
  template <std::ranges::contiguous_range Numbers>
  NamedArray(std::string_view as, const Numbers& numbers, const Dims& sizes = {}) = delete;
};

struct ShuffleOptions {
  int64_t count = 0;      // elements of the window; 0: all
  Bytes bytes = 0;        // or as many elements as fit into so many bytes
  uint64_t seed = 0;      // the same seed gives the same order
  bool reshuffle = true;  // another order in each epoch
};

// Functions of the user. They may be called by several threads at once, each element once and in any order, on a thread
// with a stack of 256 KiB.
using MapFunction = std::function<void(const ElementView& from, const ElementSlot& to)>;
// The same with random bits: those of one element depend on the seed, the epoch and the element's place in it alone.
using RandomMapFunction = std::function<void(const ElementView& from, const ElementSlot& to, uint64_t key)>;
using Predicate = std::function<bool(const ElementView& element)>;
// Writes the next element, or returns false when there is none. A generator is made anew for each epoch.
using Generator = std::function<bool(const ElementSlot& to)>;
using GeneratorFactory = std::function<Generator()>;

// Makes a dataset of an element.
using InterleaveFunction = std::function<Dataset(const ElementView& element)>;
struct InterleaveOptions {
  int64_t cycle = 1;  // datasets open at once
  int64_t block = 1;  // elements of one before the next has its turn
  // A dataset with the element type and bytes of those that the function makes. Null: the first element is read at once
  // and given to the function.
  const Dataset* like = nullptr;
  // Threads, or AUTOTUNE, that read the open datasets some elements ahead of their turn; the order is that of one
  // thread. One thread at a time calls the function.
  int threads = 1;
};

struct WindowOptions {
  int64_t shift = 0;  // from the first element of a window to that of the next; 0: the size of a window
  int64_t stride = 1;
  bool drop_remainder = false;
};

struct PaddedBatchOptions {
  std::vector<Dims> shapes = {};    // one for each component, -1: the largest of the batch; none: -1 everywhere
  std::vector<double> values = {};  // to pad with, one for each component; none: 0
  bool drop_remainder = false;
};

// A cheap value: copies share one description, each call returns another dataset. Stages mean what they mean in
// tf.data. Calls throw Error(Usage) for numbers that make no sense.
class Dataset {
 public:
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;

  // Sources.
  static Dataset slices(std::vector<NamedArray> arrays);
  static Dataset range(int64_t stop);  // component "value", i64
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1);
  static Dataset generator(ElementSpec spec, GeneratorFactory factory);
  // idx and npy files, also as .gz, of equal length; read by range, or held in memory where Dataset::on has room.
  // Compressed files are unpacked into the scratch folder, or one for temporary files. Throws Error(BadData).
  static Dataset files(const std::vector<std::pair<std::string, std::string>>& names_and_paths,
                       const std::string& scratch_folder = {});
  static Dataset files(const std::string& x) { return files({{"x", x}}); }
  static Dataset files(const std::string& x, const std::string& y) { return files({{"x", x}, {"y", y}}); }

  // Files of other formats, by an index or a list of names in bounded memory; each of the threads reads and decodes.
  // Throw Error(BadData) that names the file and the place.
  static Dataset csv(const std::string& path, const CsvOptions& options = {}, int threads = AUTOTUNE);
  // No features: what the first record holds.
  static Dataset tfrecord(const std::vector<std::string>& paths, const std::vector<TfFeature>& features = {},
                          int threads = AUTOTUNE);
  // Components "x", the image, and "y", the number of its class, i64. Each sub-folder is a class, in order of names.
  static Dataset images(const std::string& folder, const ImageOptions& options = {}, int threads = AUTOTUNE);
  // The same from a file with a path and a label on each line.
  static Dataset image_list(const std::string& path, const ImageOptions& options = {}, int threads = AUTOTUNE);
  // All arrays of an archive, under their names.
  static Dataset npz(const std::string& path);

  // Writes elements of `spec`, in order for any number of threads. Each thread may take `thread_bytes` of its own,
  // which are held under the line.
  Dataset map(ElementSpec spec, MapFunction function, int threads = 1, Bytes thread_bytes = 0) const;

  // Draws anew in each epoch; threads and resuming change nothing.
  Dataset random_map(ElementSpec spec, RandomMapFunction function, uint64_t seed = 0, int threads = 1,
                     Bytes thread_bytes = 0) const;
  // Images of one component at random cropped, mirrored, brighter and with more contrast; the others stay.
  Dataset augment(const AugmentOptions& options, int threads = AUTOTUNE) const;
  // Images of one component in another size; numbers stay what they are, u8 rounded.
  Dataset resize(const ImageResize& options, int threads = AUTOTUNE) const;

  // The tensors of an element, for a function that is traced.
  struct Sample {
    Tensor x = {}, y = {};                           // the first two components
    std::vector<Tensor> more = {};                   // those after them
    std::vector<std::string> names = {};             // none: those of the input, as far as there are
    Tensor operator[](std::string_view name) const;  // throws Error that names the components there are
  };
  using SampleFunction = std::function<Sample(const Sample& sample)>;
  // A function written with operators: its graph is planned, and run on one processor by each thread. Components have
  // one shape, but for a first dimension that differs: that is the batch.
  Dataset map(const SampleFunction& function, int threads = 1) const;

  // Without a window: a permutation of all elements, in constant memory, for sources with random access and stages that
  // keep it; other datasets need a window. A window over random access holds the indices of elements only.
  Dataset shuffle(const ShuffleOptions& options = {}) const;
  Dataset shuffle(int64_t count, uint64_t seed = 0) const { return shuffle({.count = count, .seed = seed}); }

  Dataset filter(Predicate predicate) const;
  // Leaves out elements that a stage before failed on with Error(BadData): at most so many an epoch, then it fails too.
  Dataset skip_corrupt(int64_t most) const;

  Dataset batch(int64_t count, bool drop_remainder = false) const;
  // Elements of different shapes are padded to one.
  Dataset padded_batch(int64_t count, const PaddedBatchOptions& options = {}) const;
  Dataset unbatch() const;
  // Windows as batches: what tf.data gives after .flat_map(lambda window: window.batch(count)).
  Dataset window(int64_t count, const WindowOptions& options = {}) const;

  // Components side by side, as long as the shortest; their names must differ.
  static Dataset zip(const std::vector<Dataset>& datasets);
  Dataset concatenate(const Dataset& other) const;
  Dataset enumerate(int64_t start = 0) const;  // one more component in front: "index", i64
  Dataset interleave(InterleaveFunction function, const InterleaveOptions& options = {}) const;
  Dataset flat_map(InterleaveFunction function) const;

  // What passed once is kept: in memory, which needs a size that is known, or in a file that later runs read again.
  // Elements stay those of epoch 0. Cached elements have random access.
  Dataset cache() const;
  Dataset cache(const std::string& path) const;

  Dataset repeat(int64_t times = kInfinite) const;
  Dataset take(int64_t count) const;  // -1: all
  Dataset skip(int64_t count) const;  // -1: all
  Dataset shard(int64_t shards, int64_t index) const;
  // Fills so many elements ahead, on a thread of its own.
  Dataset prefetch(int count = AUTOTUNE) const;

  const ElementSpec& element() const;
  int64_t size() const;  // elements of an epoch, kInfinite or kUnknown
  // Names of the classes by the number of the label, where the source has them: folders of images, lists, CSV
  // categories.
  const std::vector<std::string>& class_names() const;
  bool is_random_access() const;

  // What an iteration takes at least, known before anything is read.
  Bytes bytes() const;
  // What an iteration can use of `room` bytes: bytes(), slots and threads of AUTOTUNE, arrays held in memory.
  Bytes useful_bytes(Bytes room) const;
  std::vector<StageReport> stages() const;  // from the source on, with bytes and threads

  // Takes the memory of every stage. Memory that makes it faster comes from the same line: slots and threads of
  // AUTOTUNE, and arrays of files that are held in memory once they are read out of order. All of it is at most an
  // eighth of what is free, or `most` bytes; what the stages need is always taken. Throws DoesNotFit.
  Iteration on(MemoryLine& line) const;
  Iteration on(MemoryLine& line, Bytes most) const;

 private:
  friend std::shared_ptr<const input::Recipe> input::recipe_of(const Dataset& dataset);
  friend Dataset input::make_dataset(std::shared_ptr<const input::Recipe> recipe);
  explicit Dataset(std::shared_ptr<const input::Recipe> recipe) : recipe_(std::move(recipe)) {}
  std::shared_ptr<const input::Recipe> recipe_;
};

using Sample = Dataset::Sample;

// The chain of stages as text: "range(0,10,1).shuffle(seed 0).batch(4)".
std::string to_string(const Dataset& dataset);

}  // namespace plimsoll
