#include "input/origin.h"

#include <atomic>
#include <mutex>
#include <utility>

#include <plimsoll/error.h>
#include "input/stages/held_rows.h"

namespace plimsoll::input {
namespace {

// Reading a row by a system call takes about as long as reading so many bytes of a long stretch.
constexpr Bytes kBytesPerCall = 8 * KiB;

class OriginStream final : public IndexedStream {
 public:
  OriginStream(Meter& meter, MemoryLine& line, std::shared_ptr<const Origin> origin)
      : IndexedStream(meter),
        line_(line),
        origin_(std::move(origin)),
        held_(line.reserve(Tag::Data, origin_->bytes())),
        may_hold_(origin_->is_slow_out_of_order()) {}

  int64_t count() const override { return origin_->count(); }
  void read(int64_t first, const Rows& rows) const override {
    if (const HeldRows* const all = held_rows(rows.count() == 1 ? 1 : 0); all != nullptr) return all->read(first, rows);
    origin_->read(first, rows);
  }
  void gather(std::span<const int64_t> numbers, const Rows& rows) const override {
    if (const HeldRows* const all = held_rows(rows.count()); all != nullptr) return all->gather(numbers, rows);
    IndexedStream::gather(numbers, rows);
  }

 private:
  // All elements in memory, once so many calls were made that reading all at once pays off; null before that, and
  // without room. While one thread reads them, others go on as before.
  const HeldRows* held_rows(int64_t more_calls) const {
    if (const HeldRows* const ready = ready_.load(std::memory_order_acquire); ready != nullptr || !may_hold_)
      return ready;
    const int64_t calls = calls_ += more_calls;
    if (calls * kBytesPerCall < HeldRows::bytes(*origin_)) return nullptr;
    if (!may_hold_.exchange(false)) return ready_.load(std::memory_order_acquire);
    try {
      all_ = std::make_unique<const HeldRows>(*origin_, line_);
    } catch (const Error&) {
      return nullptr;  // no room, or a row that can't be read: reading that row itself throws
    }
    meter().bytes += HeldRows::bytes(*origin_);
    ready_.store(all_.get(), std::memory_order_release);
    return all_.get();
  }

  MemoryLine& line_;
  const std::shared_ptr<const Origin> origin_;
  const Reservation held_;
  mutable std::unique_ptr<const HeldRows> all_;
  mutable std::atomic<const HeldRows*> ready_ = nullptr;
  mutable std::atomic<bool> may_hold_;
  mutable std::atomic<int64_t> calls_ = 0;
};

class OriginRecipe final : public Recipe {
 public:
  explicit OriginRecipe(std::shared_ptr<const Origin> origin)
      : Recipe(checked(origin->element()), {}), origin_(std::move(origin)) {}

  std::string text() const override { return origin_->text(); }
  std::string identity() const override {
    std::call_once(identified_, [&] { identity_ = origin_->identity(); });
    return identity_;
  }
  int64_t size() const override { return origin_->count(); }
  bool is_random_access() const override { return true; }
  const std::vector<std::string>* classes() const override { return origin_->classes(); }
  Holding holding() const override {
    return {.bytes = origin_->bytes(),
            .whole_bytes = origin_->is_slow_out_of_order() ? HeldRows::bytes(*origin_) : 0,
            .kept_bytes = origin_->kept_bytes()};
  }

 protected:
  std::unique_ptr<Stream> make(Build& build, Meter& meter, std::vector<std::unique_ptr<Stream>>) const override {
    return std::make_unique<OriginStream>(meter, build.line, origin_);
  }

 private:
  const std::shared_ptr<const Origin> origin_;
  mutable std::once_flag identified_;
  mutable std::string identity_;
};

class ReaderStream final : public Stream {
 public:
  ReaderStream(Meter& meter, MemoryLine& line, std::shared_ptr<const StreamOrigin> origin)
      : Stream(meter), origin_(std::move(origin)), held_(line.reserve(Tag::Data, origin_->bytes())) {}

  int64_t skip(int64_t count, const Rows& scratch) override { return reader().skip(count, scratch); }
  void rewind(uint64_t) override { reader_.reset(); }

 protected:
  int64_t fill(const Rows& rows) override { return reader().pull(rows); }

 private:
  StreamReader& reader() {
    if (reader_ == nullptr) reader_ = origin_->open();
    return *reader_;
  }

  const std::shared_ptr<const StreamOrigin> origin_;
  const Reservation held_;
  std::unique_ptr<StreamReader> reader_;
};

class ReaderRecipe final : public Recipe {
 public:
  explicit ReaderRecipe(std::shared_ptr<const StreamOrigin> origin)
      : Recipe(checked(origin->element()), {}), origin_(std::move(origin)) {}

  std::string text() const override { return origin_->text(); }
  int64_t size() const override { return origin_->count(); }
  Holding holding() const override { return {.bytes = origin_->bytes()}; }

 protected:
  std::unique_ptr<Stream> make(Build& build, Meter& meter, std::vector<std::unique_ptr<Stream>>) const override {
    return std::make_unique<ReaderStream>(meter, build.line, origin_);
  }

 private:
  const std::shared_ptr<const StreamOrigin> origin_;
};

}  // namespace

int64_t StreamReader::skip(int64_t count, const Rows& scratch) {
  int64_t skipped = 0;
  while (skipped < count && pull(scratch.front(1)) > 0) ++skipped;
  return skipped;
}

RecipePtr from_origin(std::shared_ptr<const Origin> origin) {
  return std::make_shared<OriginRecipe>(std::move(origin));
}

RecipePtr from_origin(std::shared_ptr<const StreamOrigin> origin) {
  return std::make_shared<ReaderRecipe>(std::move(origin));
}

}  // namespace plimsoll::input
