#include "session/fit.h"

#include <fmt/format.h>

namespace plimsoll {

std::string describe(const Fit& fit) {
  std::string text =
      fmt::format("does not fit: needs {} but the line is {}, {} short{}\n", format_exact_bytes(fit.need),
                  format_exact_bytes(fit.line), format_bytes(fit.deficit()),
                  fit.tightest_task.empty() ? "" : "; tightest at " + fit.tightest_task);
  text += fmt::format("  runtime {} · data {} · the largest holders there:\n", format_bytes(fit.runtime),
                      format_bytes(fit.data));
  for (const Holder& holder : fit.holders)
    text += fmt::format("  {:>10}  {:<12} {}\n", format_bytes(holder.bytes), name_of(holder.tag), holder.name);
  text +=
      fmt::format("smallest line that works: {}MiB (--memory {}MiB)", fit.smallest_line / MiB, fit.smallest_line / MiB);
  return text;
}

DoesNotFit::DoesNotFit(Fit fit) : Error(describe(fit), ErrorKind::DoesNotFit), fit_(std::move(fit)) {}

}  // namespace plimsoll
