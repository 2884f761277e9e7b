#include "weights/weights_writer.h"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>

namespace plimsoll::weights {
namespace {

std::string quote(std::string_view name) {
  if (name == kMetadata || static_cast<Bytes>(name.size()) > WeightsReader::kLongestText / 8)
    throw Error(fmt::format("a variable named '{}' can't be saved; give it another name", name.substr(0, 100)),
                ErrorKind::Usage);
  try {
    return nlohmann::json(std::string(name)).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("a variable whose name is not UTF-8 can't be saved; give it another name", ErrorKind::Usage);
  }
}

// In the order of the file: larger elements first, so that each tensor is aligned without a gap before it.
void for_each_in_order(const TensorList& tensors, const VisitTensor& visit) {
  Bytes offset = 0;
  for (const Bytes element : {8, 4, 2, 1})
    tensors([&](const StoredTensor& tensor) {
      if (size_of(tensor.dtype) != element) return;
      StoredTensor placed{tensor.name, tensor.dtype, tensor.dims, offset, element_count(tensor.dims) * element};
      offset += placed.bytes;
      visit(placed);
    });
}

// Empty where there is nothing to write: a reader refuses longer texts.
std::string quoted_names(const std::string& names) {
  if (names.empty()) return "";
  const std::string quoted = nlohmann::json(names).dump();
  return static_cast<Bytes>(quoted.size()) > WeightsReader::kLongestText / 2 ? "" : quoted;
}

// Piece by piece: the header of a deep model is too large to hold.
void write_header(const TensorList& tensors, const WriteOptions& options,
                  const std::function<void(std::string_view)>& put) {
  put(fmt::format(R"({{"{}":{{"{}":"{}")", kMetadata, kSteps, options.steps));
  if (const std::string names = quoted_names(options.data_names); !names.empty())
    put(fmt::format(R"(,"{}":{})", kDataNames, names));
  put("}");
  for_each_in_order(tensors, [&](const StoredTensor& tensor) {
    put(fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", quote(tensor.name),
                    stored_name(tensor.dtype), to_string(tensor.dims), tensor.offset, tensor.offset + tensor.bytes));
  });
  put("}");
}

// With the spaces behind it that align the data.
Bytes header_bytes(const TensorList& tensors, const WriteOptions& options) {
  Bytes bytes = 0;
  write_header(tensors, options, [&](std::string_view text) { bytes += static_cast<Bytes>(text.size()); });
  return round_up(bytes + 8, kAlignment) - 8;
}

}  // namespace

TensorList list_of(const std::vector<StoredTensor>& tensors) {
  return [&tensors](const VisitTensor& visit) {
    for (const StoredTensor& tensor : tensors) visit(tensor);
  };
}

Bytes weights_file_bytes(const TensorList& tensors) {
  const WriteOptions longest{.steps = std::numeric_limits<int64_t>::max()};
  Bytes bytes = 8 + header_bytes(tensors, longest);
  tensors([&](const StoredTensor& tensor) { bytes += element_count(tensor.dims) * size_of(tensor.dtype); });
  return bytes;
}

void write_weights_file(const std::string& path, const TensorList& tensors, const WriteTensor& write,
                        const WriteOptions& options) {
  memory::OutputFile file(path);
  const PutBytes put = [&](std::span<const std::byte> bytes) {
    file.write(bytes.data(), static_cast<Bytes>(bytes.size()));
    if (options.watch) options.watch(bytes);
  };
  const auto put_text = [&](std::string_view text) { put(std::as_bytes(std::span(text))); };
  const auto length = static_cast<uint64_t>(header_bytes(tensors, options));
  put(std::as_bytes(std::span(&length, 1)));
  Bytes written = 0;
  write_header(tensors, options, [&](std::string_view text) {
    put_text(text);
    written += static_cast<Bytes>(text.size());
  });
  put_text(std::string(static_cast<size_t>(static_cast<Bytes>(length) - written), ' '));
  for_each_in_order(tensors, [&](const StoredTensor& tensor) {
    Bytes given = 0;
    write(tensor, [&](std::span<const std::byte> bytes) {
      given += static_cast<Bytes>(bytes.size());
      if (given <= tensor.bytes) put(bytes);
    });
    if (given != tensor.bytes)
      throw Error(fmt::format("tensor '{}' {}{} has {} bytes but {} were written", tensor.name, name_of(tensor.dtype),
                              to_string(tensor.dims), tensor.bytes, given));
  });
  file.finish();
}

}  // namespace plimsoll::weights
