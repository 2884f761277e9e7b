#include "python/place.h"

#include <bit>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include <nanobind/nanobind.h>

namespace plimsoll::python {
namespace {

// What std::source_location of libstdc++ points to: tests/python/test_tensor.py shows it by the places that messages
// name.
struct Record {
  const char* file;
  const char* function;
  unsigned line;
  unsigned column;
};
static_assert(sizeof(std::source_location) == sizeof(const Record*));

struct Place {
  std::string file, function;
  Record record;
};

// KnownPlaces live for as long as the process, since the engine keeps pointers to them. A program has as many as it has
// lines that call the module; beyond kMost, as when code is generated for ever, later ones have no name.
class KnownPlaces {
 public:
  static constexpr size_t kMost = 1 << 16;

  std::source_location at(const char* file, const char* function, unsigned line) {
    const std::string key = std::string(file) + ':' + std::to_string(line) + ':' + function;
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) return std::bit_cast<std::source_location>(&known->second->record);
    if (places_.size() >= kMost) return {};
    Place& made = places_.emplace_back(Place{file, function, {}});
    made.record = {made.file.c_str(), made.function.c_str(), line, 0};
    by_key_.emplace(key, &made);
    return std::bit_cast<std::source_location>(&made.record);
  }

 private:
  std::deque<Place> places_;
  std::unordered_map<std::string, Place*> by_key_;
};

// The last place of each code object: code may be freed and its address used again, so the names are compared.
struct Recent {
  PyCodeObject* code = nullptr;
  int line = 0;
  PyObject* file = nullptr;
  std::source_location place = {};
};

bool is_of_package(PyObject* file) {
  static const std::string folder = [] {
    const nanobind::object package = nanobind::module_::import_("plimsoll").attr("__file__");
    const std::string path = nanobind::cast<std::string>(nanobind::str(package));
    return path.substr(0, path.rfind('/') + 1);
  }();
  const char* path = PyUnicode_AsUTF8(file);
  return path != nullptr && std::string_view(path).starts_with(folder);
}

}  // namespace

std::source_location place() {
  static KnownPlaces places;
  static Recent recent[64];
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr) return {};
  nanobind::object held = nanobind::borrow(reinterpret_cast<PyObject*>(frame));
  while (true) {
    frame = reinterpret_cast<PyFrameObject*>(held.ptr());
    PyCodeObject* const code = PyFrame_GetCode(frame);
    const nanobind::object code_held = nanobind::steal(reinterpret_cast<PyObject*>(code));
    const int line = PyFrame_GetLineNumber(frame);
    Recent& last = recent[(reinterpret_cast<size_t>(code) / 64 + static_cast<size_t>(line)) % 64];
    if (last.code == code && last.line == line && last.file == code->co_filename) return last.place;
    if (!is_of_package(code->co_filename)) {
      const char* file = PyUnicode_AsUTF8(code->co_filename);
      const char* function = PyUnicode_AsUTF8(code->co_name);
      if (file == nullptr || function == nullptr) {
        PyErr_Clear();
        return {};
      }
      Py_XDECREF(last.file);
      Py_INCREF(code->co_filename);  // its address stays that of this name
      last = {code, line, code->co_filename, places.at(file, function, static_cast<unsigned>(line))};
      return last.place;
    }
    PyFrameObject* const back = PyFrame_GetBack(frame);
    if (back == nullptr) return {};
    held = nanobind::steal(reinterpret_cast<PyObject*>(back));
  }
}

}  // namespace plimsoll::python
