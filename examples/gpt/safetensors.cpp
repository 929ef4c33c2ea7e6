#include "safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshard/error.h"
#include "reshard/text.h"

namespace gpt {

using reshard::Error;
using reshard::ErrorCode;

static_assert(std::endian::native == std::endian::little, "values are read as they lie in the file");

namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kElementBytes = 4;

int64_t dtype_bytes(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" || dtype == "F8_E5M2") return 1;
  return 0;  // a dtype that this reader does not know: its size is not checked, and nobody can ask for it
}

// Bytes of a tensor as its header says; -1 for an extent below zero and for what no file can hold.
int64_t bytes_of(const Safetensors::Tensor& tensor) {
  int64_t bytes = dtype_bytes(tensor.dtype);
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  }
  return bytes;
}

bool fits(std::span<const int64_t> wanted, std::span<const int64_t> shape) {
  if (wanted.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (wanted[i] != -1 && wanted[i] != shape[i]) return false;
  }
  return true;
}

// Throws for a name that stands twice, too: a JSON library keeps one of the two without a word.
nlohmann::json parse_header(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) open.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) open.pop_back();
    if (event == nlohmann::json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  nlohmann::json header = nlohmann::json::parse(text, watch, false);
  if (!header.is_object())
    throw Error(ErrorCode::data, "not a safetensors file: the header is not a JSON object", path);
  if (!twice.empty())
    throw Error(ErrorCode::data, fmt::format("the header has \"{}\" twice", twice), path,
                "write the file anew with a safetensors library");
  return header;
}

// What a number of the header must be: whole, and one that 64 bits hold.
bool read_number(const nlohmann::json& number, int64_t& value) {
  if (!number.is_number_integer()) return false;
  if (number.is_number_unsigned() && number.get<uint64_t>() > std::numeric_limits<int64_t>::max()) return false;
  value = number.get<int64_t>();
  return true;
}

bool read_entry(const nlohmann::json& entry, Safetensors::Tensor& tensor) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    return false;
  const nlohmann::json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) return false;
  tensor.dtype = dtype.get<std::string>();
  tensor.shape.resize(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (!read_number(shape[i], tensor.shape[i])) return false;
  return read_number(offsets[0], tensor.begin) && read_number(offsets[1], tensor.end);
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (shape[i] == -1 ? std::string("any") : std::to_string(shape[i]));
  }
  return text + "]";
}

Safetensors::Safetensors(std::string path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // so that a FIFO is refused, not waited for
  if (file_ < 0) {
    throw Error(ErrorCode::data, fmt::format("the file cannot be opened: {}", std::strerror(errno)), path_);
  }
  try {
    struct stat status {};
    if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::data, "not a regular file", path_, "give the path of a .safetensors file");
    }
    size_ = status.st_size;
    read_header();
  } catch (...) {
    close(file_);
    throw;
  }
}

Safetensors::~Safetensors() {
  close(file_);
}

void Safetensors::read_header() {
  if (size_ < kLengthBytes) {
    throw Error(ErrorCode::data, fmt::format("not a safetensors file: {} bytes, too short for a header", size_), path_);
  }
  uint64_t length = 0;
  read_bytes(0, &length, kLengthBytes);
  if (length > static_cast<uint64_t>(size_ - kLengthBytes)) {
    throw Error(ErrorCode::data,
                fmt::format("not a safetensors file, or cut off: the header should have {} bytes, the file has {}",
                            length, size_),
                path_);
  }
  std::string text(length, '\0');
  read_bytes(kLengthBytes, text.data(), static_cast<int64_t>(length));
  const int64_t data = kLengthBytes + static_cast<int64_t>(length);
  const nlohmann::json header = parse_header(text, path_);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor tensor;
    if (!read_entry(entry, tensor))
      throw Error(ErrorCode::data, fmt::format("tensor \"{}\" has no dtype, shape and data_offsets", name), path_);
    const bool placed = tensor.begin >= 0 && tensor.end >= tensor.begin;
    const int64_t bytes = bytes_of(tensor);
    const bool known = dtype_bytes(tensor.dtype) != 0;
    if (!placed || bytes < 0 || (known && bytes != tensor.end - tensor.begin)) {
      throw Error(ErrorCode::data,
                  fmt::format("tensor \"{}\" of {} {} cannot lie at bytes {} to {}", name, tensor.dtype,
                              shape_text(tensor.shape), tensor.begin, tensor.end),
                  path_);
    }
    if (tensor.end > size_ - data) {
      throw Error(ErrorCode::data,
                  fmt::format("the file is cut off: tensor \"{}\" ends at byte {}, the file at {}", name,
                              static_cast<uint64_t>(data) + static_cast<uint64_t>(tensor.end), size_),
                  path_, "copy the file again");
    }
    tensor.begin += data;
    tensor.end += data;
    tensors_.emplace(name, std::move(tensor));
  }
  refuse_gaps(data);
}

// The format allows neither a gap nor two tensors in one place, so that a file means one thing to every reader.
void Safetensors::refuse_gaps(int64_t data) const {
  std::vector<std::pair<const std::string*, const Tensor*>> order;
  for (const auto& [name, tensor] : tensors_) order.emplace_back(&name, &tensor);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  int64_t at = data;
  for (const auto& [name, tensor] : order) {
    if (tensor->begin != at)
      throw Error(ErrorCode::data,
                  fmt::format("tensor \"{}\" begins at byte {}, {} where the one before it ends, at byte {}", *name,
                              tensor->begin, tensor->begin < at ? "before the place" : "behind the place", at),
                  path_, "write the file anew with a safetensors library");
    at = tensor->end;
  }
  if (at != size_)
    throw Error(ErrorCode::data, fmt::format("the last tensor ends at byte {}, the file at {}", at, size_), path_,
                "write the file anew with a safetensors library");
}

void Safetensors::drop_prefix(const std::string& prefix) {
  std::map<std::string, Tensor> renamed;
  for (const auto& [name, tensor] : tensors_) {
    const std::string rest = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    renamed.emplace(tensors_.contains(rest) ? name : rest, tensor);
  }
  tensors_ = std::move(renamed);
}

const Safetensors::Tensor& Safetensors::require(const std::string& name, const std::string& dtype,
                                                std::span<const int64_t> shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    std::vector<std::string> names;
    for (const auto& [there, tensor] : tensors_) names.push_back(there);
    const std::string near = reshard::base::nearest(name, names);
    throw Error(
        ErrorCode::data, fmt::format("no tensor \"{}\" {}", name, shape_text(shape)), path_,
        near.empty() ? "" : fmt::format("the nearest name is \"{}\" {}", near, shape_text(tensors_.at(near).shape)));
  }
  const Tensor& tensor = found->second;
  if (tensor.dtype != dtype || !fits(shape, tensor.shape)) {
    throw Error(ErrorCode::data,
                fmt::format("tensor \"{}\" is {} {}, but {} {} is wanted", name, tensor.dtype, shape_text(tensor.shape),
                            dtype, shape_text(shape)),
                path_);
  }
  return tensor;
}

void Safetensors::read(const Tensor& tensor, int64_t offset, std::span<float> values) const {
  read_bytes(tensor.begin + offset * kElementBytes, values.data(), static_cast<int64_t>(values.size_bytes()));
}

void Safetensors::read(const Tensor& tensor, int64_t offset, std::span<int32_t> values) const {
  read_bytes(tensor.begin + offset * kElementBytes, values.data(), static_cast<int64_t>(values.size_bytes()));
}

void Safetensors::read_bytes(int64_t at, void* data, int64_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = pread(file_, to, static_cast<std::size_t>(bytes), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ErrorCode::io,
                  fmt::format("cannot read {} bytes at {}: {}", bytes, at,
                              got == 0 ? "the file has become shorter" : std::strerror(errno)),
                  path_);
    }
    to += got;
    at += got;
    bytes -= got;
  }
}

}  // namespace gpt
