// Elements of several named fields with fixed shapes, by their number: the interface of all formats but plain arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::input {

struct TableField {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape = {};  // empty when it is one number
  bool operator==(const TableField&) const = default;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
  Bytes bytes() const { return elements() * size_of(dtype); }
};

// For one thread. Elements in ascending order are the fast case.
class TableReader {
 public:
  virtual ~TableReader() = default;
  // One place for each field. Throws Error(BadData) that names the file and the row or byte; reading may go on after
  // it.
  virtual void read(int64_t element, std::span<std::byte* const> into) = 0;
};

// Several readers may work at the same time; they must not outlive the table.
class Table {
 public:
  virtual ~Table() = default;
  virtual const std::string& name() const = 0;  // the path it was opened with
  virtual int64_t elements() const = 0;         // at least one
  virtual const std::vector<TableField>& fields() const = 0;
  virtual const std::vector<std::string>& classes() const { return no_classes_; }  // names of the numbers of a label
  // Classes that its labels have, as far as that is known without reading elements; 0: it is not.
  virtual int64_t label_count() const { return static_cast<int64_t>(classes().size()); }
  virtual uint64_t contents() const = 0;   // hash_sampled of its files, wherever they lie, and what reading depends on
  virtual Bytes held_bytes() const = 0;    // its index and its names
  virtual Bytes reader_bytes() const = 0;  // at most, for each reader
  virtual std::unique_ptr<TableReader> open_reader() const = 0;

 private:
  const std::vector<std::string> no_classes_ = {};
};

}  // namespace plimsoll::input
