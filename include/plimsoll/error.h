// The one exception that a mistake or a failing machine raises, and the refusal when a step does not fit the line.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll {

// Each kind is one exit code of the command line.
enum class ErrorKind {
  General = 1,
  Usage = 2,
  DoesNotFit = 3,
  BadData = 4,
  DiskFull = 5,
  BadNumbers = 6,
  RankLost = 7,  // one of the ranks that train together was killed, or does not answer
  Stopped = 75,
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, ErrorKind kind = ErrorKind::General)
      : std::runtime_error(what), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// Who holds memory: the rows of a refusal.
struct Holder {
  std::string name;
  Tag tag = Tag::Workspace;
  Bytes bytes = 0;
  bool operator==(const Holder&) const = default;
};

// What does not fit, by how much, who holds the memory, and the smallest line that works.
struct Refusal {
  Bytes line = 0;
  Bytes need = 0;           // everything that must fit below the line at once
  Bytes smallest_line = 0;  // the same request works with this: `need` rounded up; 0: not known
  Bytes runtime = 0;        // of `need`: the process itself
  Bytes data = 0;           // of `need`: the buffers of the input
  Bytes others = 0;         // of `need`: other sessions and reservations on the same line
  std::string tightest_task;
  std::vector<Holder> holders;  // largest first
  std::string reason;           // why, where that is not plain from the numbers
  Bytes deficit() const { return need > line ? need - line : 0; }
};

// What every refusal for lack of memory throws.
class DoesNotFit : public Error {
 public:
  explicit DoesNotFit(Refusal refusal);
  DoesNotFit(Refusal refusal, const std::string& what)
      : Error(what, ErrorKind::DoesNotFit), refusal_(std::move(refusal)) {}
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

std::string describe(const Refusal& refusal);

// A line to name for so many bytes: whole MiB, or quarters below 512 MiB.
Bytes round_line(Bytes bytes);
// "47.25MiB": what people type.
std::string line_text(Bytes line);

}  // namespace plimsoll
