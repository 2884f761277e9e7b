#include <plimsoll/error.h>

#include <fmt/format.h>

namespace plimsoll {

std::string describe(const Refusal& refusal) {
  std::string text =
      fmt::format("does not fit: needs {} but the line is {}, {} short{}", format_exact_bytes(refusal.need),
                  format_exact_bytes(refusal.line), format_bytes(refusal.deficit()),
                  refusal.tightest_task.empty() ? "" : "; tightest at " + refusal.tightest_task);
  if (!refusal.reason.empty()) text += "\n  " + refusal.reason;
  std::string around = fmt::format("runtime {} · data {}", format_bytes(refusal.runtime), format_bytes(refusal.data));
  if (refusal.others > 0) around += fmt::format(" · others on this line {}", format_bytes(refusal.others));
  if (refusal.runtime + refusal.data + refusal.others > 0) text += "\n  " + around;
  if (!refusal.holders.empty()) text += "\n  the largest holders there:";
  for (const Holder& holder : refusal.holders)
    text += fmt::format("\n  {:>10}  {:<12} {}", format_bytes(holder.bytes), name_of(holder.tag), holder.name);
  if (refusal.smallest_line > 0)
    text += fmt::format("\nsmallest line that works: {}", line_text(refusal.smallest_line));
  return text;
}

DoesNotFit::DoesNotFit(Refusal refusal)
    : Error(describe(refusal), ErrorKind::DoesNotFit), refusal_(std::move(refusal)) {}

Bytes round_line(Bytes bytes) { return round_up(bytes, bytes < 512 * MiB ? MiB / 4 : MiB); }

std::string line_text(Bytes line) { return fmt::format("{}MiB", static_cast<double>(line) / MiB); }

}  // namespace plimsoll
