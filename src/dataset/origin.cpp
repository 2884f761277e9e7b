#include "dataset/origin.h"

#include <utility>

namespace plimsoll::dataset {
namespace {

class OriginStream final : public IndexedStream {
 public:
  OriginStream(Meter& meter, MemoryLine& line, std::shared_ptr<const Origin> origin)
      : IndexedStream(meter), origin_(std::move(origin)), held_(line.reserve(Tag::Data, origin_->bytes())) {}

  int64_t count() const override { return origin_->count(); }
  void read(int64_t first, const Rows& rows) const override { origin_->read(first, rows); }

 private:
  const std::shared_ptr<const Origin> origin_;
  const Reservation held_;
};

class OriginRecipe final : public Recipe {
 public:
  explicit OriginRecipe(std::shared_ptr<const Origin> origin)
      : Recipe(checked(origin->element()), {}), origin_(std::move(origin)) {}

  std::string text() const override { return origin_->text(); }
  int64_t size() const override { return origin_->count(); }
  bool is_random_access() const override { return true; }
  Holding holding() const override { return {.bytes = origin_->bytes()}; }

 protected:
  std::unique_ptr<Stream> make(Build& build, Meter& meter, std::vector<std::unique_ptr<Stream>>) const override {
    return std::make_unique<OriginStream>(meter, build.line, origin_);
  }

 private:
  const std::shared_ptr<const Origin> origin_;
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

}  // namespace plimsoll::dataset
