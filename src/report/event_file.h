// Event files of TensorBoard: scalars, histograms and text, as TFRecord files of protocol buffers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "memory/append_file.h"
#include "report/histogram.h"

namespace plimsoll::report {

class EventFile {
 public:
  static constexpr Bytes kBytes = 128 * KiB;         // all that an event file takes
  static constexpr size_t kLongestText = 16 * 1024;  // of one text; what is longer is cut, and says so

  // Makes a new file in the folder, which is made if it is missing, with a name that TensorBoard looks for. For a run
  // that goes on after `resumed_after` steps, TensorBoard drops what earlier files say of later steps. Throws Error.
  explicit EventFile(const std::string& folder, std::optional<int64_t> resumed_after = {});

  const std::string& path() const { return file_.path(); }

  // In the file after a flush. Throw Error, DiskFull when the disk is full.
  void add_scalar(std::string_view tag, int64_t step, double value);
  void add_histogram(std::string_view tag, int64_t step, const Histogram& histogram);
  void add_text(std::string_view tag, int64_t step, std::string_view text);  // shown as Markdown
  void flush() { file_.flush(); }

 private:
  void add_event(int64_t step, std::string_view rest);

  memory::AppendFile file_;
};

}  // namespace plimsoll::report
