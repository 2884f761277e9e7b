// What a file format or a table must provide to be the source of a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "input/recipe.h"

namespace plimsoll::input {

// Elements by number. Reading is safe from several threads at once.
class Origin {
 public:
  virtual ~Origin() = default;
  virtual const ElementSpec& element() const = 0;
  virtual int64_t count() const = 0;
  virtual std::string text() const = 0;  // "files(x.npy)"
  // The same for the same data wherever it lies, another one for other data, as far as a sample shows. Asked once.
  virtual std::string identity() const { return text(); }
  virtual Bytes bytes() const { return 0; }       // what reading holds beside the rows, of all threads
  virtual Bytes kept_bytes() const { return 0; }  // see Holding
  virtual const std::vector<std::string>* classes() const { return nullptr; }  // names of the numbers of a label
  // Elements out of order cost a system call each: they may be held in memory where the line has room.
  virtual bool is_slow_out_of_order() const { return false; }
  // Elements first .. first + rows.count() - 1. Throws Error(BadData) that names the place.
  virtual void read(int64_t first, const Rows& rows) const = 0;
};

// Elements one after the other.
class StreamReader {
 public:
  virtual ~StreamReader() = default;
  // As Stream::pull: at least one, 0 at the end; after an Error it goes on with the element after the bad one.
  virtual int64_t pull(const Rows& rows) = 0;
  // As Stream::skip; by reading unless the format knows better.
  virtual int64_t skip(int64_t count, const Rows& scratch);
};

class StreamOrigin {
 public:
  virtual ~StreamOrigin() = default;
  virtual const ElementSpec& element() const = 0;
  virtual int64_t count() const { return Dataset::kUnknown; }
  virtual std::string text() const = 0;
  virtual Bytes bytes() const { return 0; }  // what a reader holds
  // A reader that starts at the first element.
  virtual std::unique_ptr<StreamReader> open() const = 0;
};

RecipePtr from_origin(std::shared_ptr<const Origin> origin);
RecipePtr from_origin(std::shared_ptr<const StreamOrigin> origin);

}  // namespace plimsoll::input
