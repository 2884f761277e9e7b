// Reads GGUF files by range: facts, and tensors that are unpacked to f32 where they lie. Holds names and places alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "import/blocks.h"
#include "memory/file.h"

namespace plimsoll::import {

struct GgufTensor {
  std::string name;
  BlockType type = BlockType::F32;
  std::vector<int64_t> dims;  // the outermost first, as elsewhere here; the file has them the other way round
  int64_t elements = 0;
  Bytes offset = 0;  // in the file
  Bytes bytes = 0;
};

// Of the types that a fact may have.
enum class GgufKind : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, Text, Array, U64, I64, F64 };

class GgufFile {
 public:
  // Checks the whole header: every length against what is left of the file, no tensor outside the file or over another,
  // no name twice. Throws Error(BadData) that names the file and the fault; a type of blocks that is not read is named.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the order of the file
  const GgufTensor* find(std::string_view name) const;

  bool has(std::string_view key) const { return find_fact(key) != nullptr; }
  // Throw Error(BadData) for a fact of another kind; `fallback` where there is none.
  std::string text(std::string_view key, const std::string& fallback) const;
  int64_t whole(std::string_view key, int64_t fallback) const;
  double number(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;

  // Elements of a list; 0: there is none. Throw Error(BadData) for elements of another kind.
  int64_t count(std::string_view key) const;
  void for_each_text(std::string_view key, const std::function<void(std::string_view)>& visit) const;
  std::vector<int64_t> wholes(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;

  // Elements [first, first + count) of a tensor as f32; both are multiples of its blocks or end with it.
  void read(const GgufTensor& tensor, int64_t first, int64_t count, float* into) const;
  Bytes bytes() const;  // held

 private:
  struct Fact {
    std::string key;
    GgufKind kind = GgufKind::U32, element = GgufKind::U32;
    Bytes offset = 0;  // of the value or of the first element
    int64_t count = 0;
  };
  class Cursor;
  const Fact* find_fact(std::string_view key) const;
  const Fact* find_list(std::string_view key) const;
  void read_facts(Cursor& cursor, uint64_t count);
  void read_tensors(Cursor& cursor, uint64_t count);
  void check_places() const;

  const std::string path_;
  const memory::File file_;
  const Bytes size_;
  std::vector<Fact> facts_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace plimsoll::import
