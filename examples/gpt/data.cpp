#include "data.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "random.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace gpt {

namespace fs = std::filesystem;
using reshard::Error;
using reshard::ErrorCode;

namespace {

constexpr std::size_t kLookedAt = 8192;  // bytes in which a zero makes a file binary
constexpr int64_t kValidationPart = 10;  // one in so many bytes
constexpr uint64_t kTrainingStream = 1;

}  // namespace

Text::Text(const std::string& path, const std::string& where, Needs needs) : path_(path), needs_(needs) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (status.type() == fs::file_type::not_found) {
    throw Error(ErrorCode::data, fmt::format("\"{}\" does not exist", path), where, "name a file or folder of text");
  }
  // A FIFO would be waited for, and a device may never end.
  if (fs::exists(status) && !fs::is_directory(status) && !fs::is_regular_file(status)) {
    throw Error(ErrorCode::data, fmt::format("\"{}\" is neither a regular file nor a folder", path), where,
                "name a file or folder of text");
  }
  try {
    if (fs::is_directory(status)) {
      read_folder();
    } else {
      read_file(path, false);
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCode::data,
                fmt::format("\"{}\" cannot be read: {}", error.path1().string(), error.code().message()), where);
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::data, fmt::format("\"{}\" cannot be read: {}", path, error.code().message()), where);
  }
  if (bytes_.empty()) {
    throw Error(ErrorCode::data, fmt::format("\"{}\" holds no text", path), where, "name a file or folder of text");
  }
  const int64_t held_out = bytes() / kValidationPart;
  training_ = bytes() - held_out;
  if (held_out < needs.length || training_ < needs.ranks * needs.length) {
    throw Error(ErrorCode::data,
                fmt::format("\"{}\" has {} of text, too little for {} rank{}: each needs a sequence of {} bytes, and "
                            "the last tenth, for validation, one more",
                            path, fmt::format("{} byte{}", bytes(), bytes() == 1 ? "" : "s"), needs.ranks,
                            needs.ranks == 1 ? "" : "s", needs.length),
                where, "name more text, or lower mesh.ranks or model.sequence");
  }
}

void Text::read_folder() {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  for (const std::string& path : paths) read_file(path, true);
}

void Text::read_file(const std::string& path, bool skip_binary) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw fs::filesystem_error("", path, std::error_code(errno, std::generic_category()));
  const std::size_t before = bytes_.size();
  std::string part(kLookedAt, '\0');
  file.read(part.data(), static_cast<std::streamsize>(part.size()));
  part.resize(static_cast<std::size_t>(file.gcount()));
  if (skip_binary && part.find('\0') != std::string::npos) return;
  bytes_ += part;
  const auto size = static_cast<std::size_t>(fs::file_size(path));
  if (size > part.size()) {
    bytes_.resize(before + size);
    file.read(bytes_.data() + before + part.size(), static_cast<std::streamsize>(size - part.size()));
    bytes_.resize(before + part.size() + static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw fs::filesystem_error("", path, std::error_code(errno, std::generic_category()));
  if (bytes_.size() > before) ++files_;
}

void Text::copy(int64_t from, std::span<int32_t> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<unsigned char>(bytes_[static_cast<std::size_t>(from) + i]);
  }
}

void Text::training(int64_t step, int64_t number, std::span<int32_t> out) const {
  const int64_t rank = number / (needs_.batch / needs_.ranks);
  const int64_t part = training_ / needs_.ranks;
  const int64_t begin = rank * part;
  const int64_t end = rank + 1 == needs_.ranks ? training_ : begin + part;
  const uint64_t bits =
      random_bits(mix(needs_.seed) + kTrainingStream, static_cast<uint64_t>(step), static_cast<uint64_t>(number));
  const uint64_t places = static_cast<uint64_t>(end - begin) - out.size() + 1;
  copy(begin + static_cast<int64_t>(bits % places), out);
}

void Text::validation(int64_t number, int64_t count, std::span<int32_t> out) const {
  const int64_t last = bytes() - training_ - static_cast<int64_t>(out.size());
  copy(training_ + (count > 1 ? last / (count - 1) * number : 0), out);
}

std::vector<int32_t> Text::prompt(int64_t count) const {
  std::vector<int32_t> tokens(static_cast<std::size_t>(std::min(count, bytes() - training_)));
  copy(training_, tokens);
  return tokens;
}

TokenFile::TokenFile(const std::string& path, Needs needs) : batch_(needs.batch), length_(needs.length) {
  const Safetensors file(path);
  const Safetensors::Tensor& tensor = file.require("tokens", "I32", std::vector<int64_t>{-1, batch_, length_});
  if (tensor.shape[0] < needs.steps) {
    throw Error(ErrorCode::data,
                fmt::format("tensor \"tokens\" {} has {} steps, but the job has {}", shape_text(tensor.shape),
                            tensor.shape[0], needs.steps),
                path, fmt::format("set train.steps to {} at most", tensor.shape[0]));
  }
  tokens_.resize(static_cast<std::size_t>(needs.steps * batch_ * length_));
  file.read(tensor, 0, std::span(tokens_));
  for (const int32_t token : tokens_) {
    if (token < 0 || token >= needs.vocabulary) {
      throw Error(ErrorCode::data,
                  fmt::format("tensor \"tokens\" has {}, but tokens are 0 to {}", token, needs.vocabulary - 1), path,
                  "set model.vocabulary to the file's");
    }
  }
}

void TokenFile::training(int64_t step, int64_t number, std::span<int32_t> out) const {
  const auto from = static_cast<std::size_t>((step * batch_ + number) * length_);
  if (from + out.size() > tokens_.size()) throw std::logic_error("a step or sequence that the job does not have");
  std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(from), out.size(), out.begin());
}

void TokenFile::validation(int64_t, int64_t, std::span<int32_t>) const {
  throw std::logic_error("a token file has no validation part");
}

}  // namespace gpt
