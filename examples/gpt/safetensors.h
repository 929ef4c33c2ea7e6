#pragma once

// Reader of .safetensors files: 8 bytes of header length (little-endian), a JSON header (name → dtype, shape, place),
// raw little-endian data. The header is read and checked when the file is opened; values are read where and when they
// are asked for. Thread rules: reading is const and may be done by several threads at once. Every error is Error(data)
// with the file as its place.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// "[256, 64]"
std::string shape_text(std::span<const int64_t> shape);

class Safetensors {
 public:
  struct Tensor {
    std::string dtype;  // "F32", "I32", …
    std::vector<int64_t> shape;
    int64_t begin = 0, end = 0;  // bytes within the file
  };

  // Throws for a file that cannot be read, is cut off, or has a header that is not of this format.
  explicit Safetensors(std::string path);
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;
  ~Safetensors();

  const std::string& path() const { return path_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  // Takes a prefix off the names that have it: "transformer.wte.weight" is "wte.weight" then. A name that another
  // tensor has already stays as it is.
  void drop_prefix(const std::string& prefix);

  // The tensor of this name, dtype and shape; throws naming what was wanted and what is there. A -1 in `shape` takes
  // whatever the file has.
  const Tensor& require(const std::string& name, const std::string& dtype, std::span<const int64_t> shape) const;

  // Elements [offset, offset + values.size()) of a tensor of 4-byte elements.
  void read(const Tensor& tensor, int64_t offset, std::span<float> values) const;
  void read(const Tensor& tensor, int64_t offset, std::span<int32_t> values) const;

 private:
  void read_header();
  void refuse_gaps(int64_t data) const;
  void read_bytes(int64_t at, void* data, int64_t bytes) const;

  std::string path_;
  int file_ = -1;
  int64_t size_ = 0;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace gpt
