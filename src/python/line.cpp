#include <optional>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <plimsoll/memory_line.h>
#include <plimsoll/threads.h>
#include "python/bind.h"
#include "python/line.h"
#include "python/types.h"

namespace plimsoll::python {

void bind_line(nb::module_& module) {
  nb::class_<Line>(
      module, "Line",
      "The bytes that a program may use: \"300MiB\", \"80%\" of the machine, or a number. It covers the whole "
      "process, interpreter and NumPy included; with covers_process=False, tensors alone. None: what the machine "
      "and its limits allow. scratch: a folder on a disk for what the line has no room for.")
      .def(
          "__init__",
          [](Line* made, nb::handle limit, nb::handle scratch, bool covers_process) {
            const ArgumentPlace at{"Line", "limit"};
            const std::string folder = scratch.is_none() ? "" : to_text(scratch, {"Line", "scratch"});
            const nb::object text = limit.is_none() ? nb::object(nb::str("")) : nb::borrow(limit);
            if (!covers_process)
              new (made) Line{limit.is_none() ? MemoryLine() : MemoryLine(to_bytes(limit, at)), folder};
            else if (PyUnicode_Check(text.ptr()))
              new (made) Line{MemoryLine::process(to_text(text, at)), folder};
            else
              new (made) Line{MemoryLine::process(to_int(text, at)), folder};
          },
          nb::arg("limit") = nb::none(), nb::arg("scratch") = nb::none(), nb::arg("covers_process") = true,
          nb::sig("def __init__(self, limit: int | str | None = None, scratch: str | os.PathLike[str] | None = None, "
                  "covers_process: bool = True) -> None"))
      .def_prop_ro(
          "limit", [](const Line& line) { return line.line.limit(); }, "Its bytes.")
      .def_prop_ro(
          "used", [](const Line& line) { return line.line.used(); }, "Held now.")
      .def_prop_ro(
          "free", [](const Line& line) { return line.line.free(); }, "What is left.")
      .def_prop_ro(
          "peak", [](const Line& line) { return line.line.peak(); }, "The most that was ever held at once.")
      .def_prop_ro(
          "process_bytes", [](const Line& line) { return line.line.process_bytes(); },
          "Of used: the process itself, when it was last measured.")
      .def_prop_ro(
          "covers_process", [](const Line& line) { return line.line.covers_process(); },
          "Whether the whole process is under it.")
      .def_prop_ro(
          "scratch", [](const Line& line) { return line.scratch; }, "The folder for what it has no room for.")
      .def(
          "used_by", [](const Line& line, const std::string& tag) { return line.line.used(parse_tag(tag)); },
          nb::arg("tag"))
      .def(
          "report", [](nb::handle line) { return nb::module_::import_("plimsoll.reports").attr("LineReport")(line); },
          nb::sig("def report(self) -> plimsoll.reports.LineReport"), "What is held now, by what it is for.")
      .def("_report_text",
           [](const Line& line) {
             const nb::gil_scoped_release release;
             return line.line.report();
           })
      .def("measure",
           [](Line& line) {
             const nb::gil_scoped_release release;
             line.line.measure_process();
           })
      .def("expect_no_growth",
           [](Line& line) {
             const nb::gil_scoped_release release;
             line.line.expect_no_growth();
           })
      .def(
          "__eq__", [](const Line& a, const Line& b) { return a.line == b.line; }, nb::is_operator());
  module.def("set_threads", &set_threads, nb::arg("threads"),
             "Operators run on so many threads, for all that this thread starts from now on.");
  module.def("threads", &threads, "How many threads operators run on.");
  module.def("resident_bytes", &resident_bytes, "Bytes that this process holds in memory now.");
  module.def("peak_resident_bytes", &peak_resident_bytes, "The most bytes that this process ever held in memory.");
  module.def(
      "parse_bytes", [](const std::string& text) { return parse_bytes(text); }, nb::arg("text"),
      "The number of bytes of a text such as '64MiB'.");
  module.def("format_bytes", &format_bytes, nb::arg("bytes"), "'212.4 MiB': short, for people.");
}

}  // namespace plimsoll::python
