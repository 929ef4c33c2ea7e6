#pragma once

// A program's own tables as the tests of this folder use them, one field of every type that a table can bind.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/override.h"
#include "config/read.h"
#include "reshard/error.h"
#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::test {

struct Network {
  int layers = 4;
  std::string units = "root";
  bool tied = true;
  std::string path = "";
  int64_t cache = 0;
  uint64_t seed = 7;
  std::vector<double> scales{0.5, 1};
  std::vector<std::string> names{"a"};
  std::array<double, 2> range{0, 1};
  double rate = 0.25;
  int64_t tokens = 10;

  bool operator==(const Network&) const = default;
};

inline Tables network_tables(Network& network) {
  Table model("model", "The network.");
  model.key("layers", &network.layers, {.doc = "blocks", .min = 1, .max = 1000})
      .key("units", &network.units, {.doc = "root | split", .choices = {"root", "split"}})
      .key("tied", &network.tied, {.doc = "one matrix for embedding and head"})
      .key("rate", &network.rate, {.above = 0, .below = 1})
      .key("tokens", &network.tokens, {.min = -5})
      .key("scales", &network.scales, {.min = 0})
      .key("names", &network.names)
      .key("range", &network.range)
      .key("seed", &network.seed);
  Table data("data", "");
  data.key("path", &network.path, {.doc = "a file or a folder", .path = PathKind::file}).bytes("cache", &network.cache);
  return {model, data};
}

// The whole text of the error that `call` throws; "no error" where it throws none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::config ? error.what() : std::string("not a config error: ") + error.what();
  }
  return "no error";
}

// A job with its program, read from a text that came from `job.toml`.
struct Read {
  Job job;
  Network network;
  Tables program = network_tables(network);

  explicit Read(std::string_view text, const std::string& path = "job.toml") {
    config::read_text(text, path, job, program);
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

  void apply(const config::Overrides& overrides) { config::apply(overrides, job, program); }
};

}  // namespace reshard::test
