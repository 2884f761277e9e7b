// Prints docs/operators.md: every function of <plimsoll/ops.inc> with its arguments.
#include <iostream>

#include <fmt/format.h>

#include "ops/ops.h"

int main() {
  using namespace plimsoll;
  std::cout
      << "# Operators\n\n"
         "Every function over tensors, in the order of `<plimsoll/ops.inc>`; `build/tests/list_functions` writes this "
         "page.\n"
         "An argument without a type is a tensor; each function takes a name last. Negative axes count from the end.\n"
         "`+ - * /` and `< <= > >=` stand for `add` to `greater_equal`; numbers may stand on either side.\n\n"
         "| function | what it computes |\n|---|---|\n";
  for (const ops::Function& function : ops::functions()) {
    std::string arguments;
    for (const ops::Argument& argument : function.arguments) {
      if (!arguments.empty()) arguments += ", ";
      if (argument.type != "Tensor") arguments += fmt::format("{} ", argument.type);
      arguments += argument.name;
      if (!argument.otherwise.empty()) arguments += fmt::format(" = {}", argument.otherwise);
    }
    std::string description;
    for (const char c : function.description) description += c == '|' ? std::string("\\|") : std::string(1, c);
    std::cout << fmt::format("| `{}({})` | {} |\n", function.name, arguments, description);
  }
  return 0;
}
