#pragma once

// Where training tokens come from: bytes of text files, or a table of tokens in a .safetensors file. A sequence is a
// pure function of (seed, ranks, step, its number in the global batch): strategy and micro-batches play no part.
//
// Thread rules: a source does not change after it is made; ranks share it. Errors are Error(data).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "safetensors.h"

namespace gpt {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Sequence `number` of the global batch of `step`, whose sequences are dealt out rank after rank: out.size() tokens,
  // one more than the network reads at a time (inputs are all but the last, targets all but the first).
  virtual void training(int64_t step, int64_t number, std::span<int32_t> out) const = 0;

  // Sequence `number` of `count` that are evaluated, always the same ones. REQUIRES: has_validation().
  virtual void validation(int64_t number, int64_t count, std::span<int32_t> out) const = 0;
  virtual bool has_validation() const = 0;
};

// Bytes as tokens. A folder is read whole, recursively, in the order of its paths; links to folders are not followed,
// and files with a zero byte in their first 8 KiB are taken for binary and left out. The last tenth is for validation;
// what is before it is cut into one contiguous part per rank, from which that rank draws:
//
//   | rank 0's part | rank 1's part | … | the last rank's, and the remainder | validation |
class Text final : public TokenSource {
 public:
  // `length`: tokens of a sequence, the extra one included. `batch`: sequences of a step over all ranks, a multiple of
  // `ranks`. `where`: what errors call the place of the path.
  struct Needs {
    int64_t length;
    int ranks;
    int64_t batch;
    uint64_t seed;
  };
  Text(const std::string& path, const std::string& where, Needs needs);

  void training(int64_t step, int64_t number, std::span<int32_t> out) const override;
  void validation(int64_t number, int64_t count, std::span<int32_t> out) const override;
  bool has_validation() const override { return true; }

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t files() const { return files_; }
  int64_t training_bytes() const { return training_; }
  const std::string& path() const { return path_; }

  // `count` bytes from the beginning of the validation part (fewer if it is shorter): a prompt.
  std::vector<int32_t> prompt(int64_t count) const;

 private:
  void read_folder();
  void read_file(const std::string& path, bool skip_binary);
  void copy(int64_t from, std::span<int32_t> out) const;

  std::string path_;
  Needs needs_;
  std::string bytes_;
  int64_t files_ = 0;
  int64_t training_ = 0;  // bytes before the validation part
};

// The tensor "tokens", int32 [steps, batch, length], of a file: step s takes tokens[s].
class TokenFile final : public TokenSource {
 public:
  struct Needs {
    int64_t steps, batch, length;
    int vocabulary;
  };
  // Throws where shape or values do not fit the job.
  TokenFile(const std::string& path, Needs needs);

  void training(int64_t step, int64_t number, std::span<int32_t> out) const override;
  void validation(int64_t number, int64_t count, std::span<int32_t> out) const override;
  bool has_validation() const override { return false; }

 private:
  std::vector<int32_t> tokens_;
  int64_t batch_, length_;
};

}  // namespace gpt
