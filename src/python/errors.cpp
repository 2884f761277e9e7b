// Exceptions of the engine as those of plimsoll.errors, with what a program may want to know as attributes.
#include <exception>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <plimsoll/error.h>
#include "python/bind.h"

namespace plimsoll::python {
namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::General:
      return "Error";
    case ErrorKind::Usage:
      return "UsageError";
    case ErrorKind::DoesNotFit:
      return "DoesNotFit";
    case ErrorKind::BadData:
      return "BadData";
    case ErrorKind::DiskFull:
      return "DiskFull";
    case ErrorKind::BadNumbers:
      return "BadNumbers";
    case ErrorKind::RankLost:
      return "RankLost";
    case ErrorKind::Stopped:
      return "Stopped";
  }
  return "Error";
}

nb::object holders_of(const Refusal& refusal) {
  nb::list holders;
  const nb::object holder = nb::module_::import_("plimsoll.errors").attr("Holder");
  for (const Holder& one : refusal.holders) holders.append(holder(one.name, std::string(name_of(one.tag)), one.bytes));
  return holders;
}

void raise(const Error& error) {
  const nb::object errors = nb::module_::import_("plimsoll.errors");
  const nb::object text = errors.attr("in_python_words")(nb::str(error.what()));
  const nb::object type = errors.attr(class_of(error.kind()));
  nb::object made;
  if (const auto* refused = dynamic_cast<const DoesNotFit*>(&error)) {
    const Refusal& refusal = refused->refusal();
    nb::dict values;
    values["line"] = refusal.line;
    values["need"] = refusal.need;
    values["smallest_line"] = refusal.smallest_line;
    values["runtime"] = refusal.runtime;
    values["data"] = refusal.data;
    values["others"] = refusal.others;
    values["tightest"] = refusal.tightest_task;
    values["reason"] = refusal.reason;
    values["holders"] = holders_of(refusal);
    made = type(text, **values);
  } else {
    made = type(text);
  }
  PyErr_SetObject(type.ptr(), made.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace plimsoll::python
