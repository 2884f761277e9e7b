#include "train/npy_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>

namespace plimsoll::train {
namespace {

const char* npy_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "<f4";
    case DType::F16:
      return "<f2";
    case DType::I32:
      return "<i4";
    case DType::I64:
      return "<i8";
    case DType::U8:
      return "|u1";
    case DType::I8:
      return "|i1";
    case DType::Bool:
      return "|b1";
    case DType::BF16:
      break;
  }
  throw Error(fmt::format("npy files have no numbers of {}; cast the output to f32", name_of(dtype)), ErrorKind::Usage);
}

}  // namespace

NpyFile::NpyFile(const std::string& path, DType dtype, const Dims& dims) : file_(path) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", npy_type(dtype),
                                   fmt::join(dims.begin(), dims.end(), ", "));
  // Magic, version and length are 10 bytes; the numbers start at a multiple of 64.
  header.resize((10 + header.size() + 64) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  file_.write("\x93NUMPY");
  const char front[] = {1, 0, static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  file_.write(front, sizeof front);
  file_.write(header);
}

}  // namespace plimsoll::train
