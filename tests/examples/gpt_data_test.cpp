// What the GPT example reads: parameter files and text, with the exact text of every error.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "examples/gpt/data.h"
#include "examples/gpt/parameters.h"
#include "reshard/error.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, gone afterwards.
class Files : public testing::Test {
 protected:
  Files() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        fs::temp_directory_path() / (std::string("reshard_gpt_data_") + test->name() + "_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  // A safetensors file with this header and so many bytes of data.
  std::string write_tensors(const std::string& header, std::size_t data) const {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xffU);
    return write("file.safetensors", bytes + header + std::string(data, '\0'));
  }

  fs::path folder_;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const reshard::Error& error) {
    return error.what();
  }
  return "no error";
}

// ---- safetensors

TEST_F(Files, ReadsTensorsInParts) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const std::string path = write_tensors(header, 0);
  std::ofstream(path, std::ios::binary | std::ios::app).write(reinterpret_cast<const char*>(values.data()), 24);
  const Safetensors file(path);
  ASSERT_EQ(file.tensors().size(), 1U);
  const Safetensors::Tensor& a = file.require("a", "F32", std::vector<int64_t>{2, -1});
  std::vector<float> part(4);
  file.read(a, 1, std::span(part));
  EXPECT_EQ(part, (std::vector<float>{2, 3, 4, 5}));
}

TEST_F(Files, SaysWhatIsWrongWithATensorFile) {
  const auto open = [&](const std::string& path) { return error_of([&] { const Safetensors file(path); }); };
  const std::string missing = (folder_ / "none.safetensors").string();
  EXPECT_EQ(open(missing), missing + ": the file cannot be opened: No such file or directory");
  EXPECT_EQ(open(folder_.string()), folder_.string() + ": not a regular file (give the path of a .safetensors file)");
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);  // nobody writes to it: opened as a file is, it would be waited for
  EXPECT_EQ(open(fifo), fifo + ": not a regular file (give the path of a .safetensors file)");

  const std::string path = write("file.safetensors", "abc");
  EXPECT_EQ(open(path), path + ": not a safetensors file: 3 bytes, too short for a header");
  write("file.safetensors", std::string("\x40\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(open(path),
            path + ": not a safetensors file, or cut off: the header should have 64 bytes, the file has 10");
  write_tensors("{\"a\": [", 0);
  EXPECT_EQ(open(path), path + ": not a safetensors file: the header is not a JSON object");
  write_tensors("[1, 2]", 0);
  EXPECT_EQ(open(path), path + ": not a safetensors file: the header is not a JSON object");
  write_tensors(R"({"a":{"dtype":"F32","shape":[2]}})", 8);
  EXPECT_EQ(open(path), path + ": tensor \"a\" has no dtype, shape and data_offsets");
  write_tensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8);
  EXPECT_EQ(open(path), path + ": tensor \"a\" of F32 [2] cannot lie at bytes 0 to 4");
  write_tensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8);
  EXPECT_EQ(open(path), path + ": tensor \"a\" of F32 [2] cannot lie at bytes -8 to 0");
  // Sizes that are right modulo 2^64, and places that no file has.
  write_tensors(R"({"a":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(open(path), path + ": tensor \"a\" of F32 [4611686018427387906] cannot lie at bytes 0 to 8");
  write_tensors(R"({"a":{"dtype":"F32","shape":[-2,-2],"data_offsets":[0,16]}})", 16);
  EXPECT_EQ(open(path), path + ": tensor \"a\" of F32 [-2, -2] cannot lie at bytes 0 to 16");
  write_tensors(R"({"a":{"dtype":"X","shape":[2],"data_offsets":[0,9223372036854775807]}})", 8);
  EXPECT_EQ(open(path), path +
                            ": the file is cut off: tensor \"a\" ends at byte 9223372036854775885, the file at 86 "
                            "(copy the file again)");
  write_tensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 5);
  EXPECT_EQ(open(path),
            path + ": the file is cut off: tensor \"a\" ends at byte 70, the file at 67 (copy the file again)");
}

// A reader that takes such files sees other values in them than the next one.
TEST_F(Files, RefusesATensorFileThatMeansSeveralThings) {
  const auto open = [&](const std::string& header, std::size_t data) {
    const std::string path = write_tensors(header, data);
    const std::string error = error_of([&] { const Safetensors file(path); });
    EXPECT_EQ(error.rfind(path + ": ", 0), 0U) << error;
    return error.substr(std::min(error.size(), path.size() + 2));
  };
  const auto tensor = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string anew = " (write the file anew with a safetensors library)";
  const std::string a = tensor("a", "[2]", "[0,8]");
  EXPECT_EQ(open("{" + a + "," + tensor("b", "[2]", "[4,12]") + "}", 12),
            "tensor \"b\" begins at byte 120, before the place where the one before it ends, at byte 124" + anew);
  EXPECT_EQ(open("{" + a + "," + tensor("b", "[1]", "[12,16]") + "}", 16),
            "tensor \"b\" begins at byte 129, behind the place where the one before it ends, at byte 125" + anew);
  EXPECT_EQ(open("{" + tensor("a", "[1]", "[4,8]") + "}", 8),
            "tensor \"a\" begins at byte 66, behind the place where the one before it ends, at byte 62" + anew);
  EXPECT_EQ(open("{" + a + "}", 12), "the last tensor ends at byte 70, the file at 74" + anew);
  EXPECT_EQ(open("{" + a + "," + tensor("a", "[1]", "[8,12]") + "}", 12), "the header has \"a\" twice" + anew);
  EXPECT_EQ(open(R"({"a":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}})", 8),
            "the header has \"dtype\" twice" + anew);
  for (const char* offsets : {"[0,8.5]", "[0]", "[0,8,9]", "[\"0\",8]", "[0,18446744073709551615]", "8", "null"})
    EXPECT_EQ(open("{" + tensor("a", "[2]", offsets) + "}", 8), "tensor \"a\" has no dtype, shape and data_offsets");
  for (const char* shape : {"[2.0]", "2", "[true]", "{}", "[[2]]"})
    EXPECT_EQ(open("{" + tensor("a", shape, "[0,8]") + "}", 8), "tensor \"a\" has no dtype, shape and data_offsets");
  EXPECT_EQ(open("{\"a\": 3}", 0), "tensor \"a\" has no dtype, shape and data_offsets");
}

TEST_F(Files, NamesBothTensorsThatDoNotFit) {
  const std::string golden = std::string(RESHARD_SOURCE_DIR) + "/tests/golden/gpt/";
  const Safetensors tied(golden + "tied/parameters.safetensors"), untied(golden + "untied/parameters.safetensors");
  const auto check = [](const Safetensors& file, const Shape& shape) {
    return error_of([&] { check_parameters(file, declare_units(shape, Placement::root, {}).model); });
  };
  Shape shape = {.layers = 2, .width = 64, .heads = 4, .sequence = 32, .vocabulary = 256, .tied = true};
  EXPECT_EQ(check(tied, shape), "no error");
  EXPECT_EQ(check(untied, shape), untied.path() +
                                      ": tensor \"lm_head.weight\" [256, 64] is no parameter of this model "
                                      "(make [model] the file's own)");
  shape.tied = false;
  EXPECT_EQ(check(untied, shape), "no error");
  EXPECT_EQ(check(tied, shape), tied.path() + ": no tensor \"lm_head.weight\" [256, 64]");
  shape.layers = 3;
  EXPECT_EQ(check(untied, shape),
            untied.path() + ": no tensor \"h.2.ln_1.weight\" [64] (the nearest name is \"h.0.ln_1.weight\" [64])");
  shape.layers = 2;
  shape.sequence = 48;
  EXPECT_EQ(check(untied, shape),
            untied.path() + ": tensor \"wpe.weight\" is F32 [32, 64], but F32 [48, 64] is wanted");
}

TEST_F(Files, PassesOverCausalMasks) {
  std::string header = "{\"h.0.attn.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  const reshard::Model model =
      declare_units({.layers = 0, .width = 1, .heads = 1, .sequence = 1, .vocabulary = 2}, Placement::root, {}).model;
  int64_t at = 4;
  for (const reshard::Parameter& p : model.units()[0].parameters) {
    header += ",\"" + p.name + "\":{\"dtype\":\"F32\",\"shape\":" + shape_text(p.shape) + ",\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(at + 4 * p.elements()) + "]}";
    at += 4 * p.elements();
  }
  check_parameters(Safetensors(write_tensors(header + "}", static_cast<std::size_t>(at))), model);
}

std::size_t bytes_of(const reshard::Model& model) {
  int64_t elements = 0;
  for (const reshard::UnitSpec& unit : model.units())
    for (const reshard::Parameter& parameter : unit.parameters) elements += parameter.elements();
  return static_cast<std::size_t>(4 * elements);
}

// The header of a file of the model's own tensors under other names.
std::string renamed(const reshard::Model& model, const std::function<std::string(const std::string&)>& name) {
  std::string header;
  int64_t at = 0;
  for (const reshard::UnitSpec& unit : model.units())
    for (const reshard::Parameter& p : unit.parameters) {
      header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":{},"data_offsets":[{},{}]}})", at == 0 ? "{" : ",",
                            name(p.name), shape_text(p.shape), at, at + 4 * p.elements());
      at += 4 * p.elements();
    }
  return header + "}";
}

TEST_F(Files, NamesTheTensorThatTheFileHasInstead) {
  const Units units =
      declare_units({.layers = 1, .width = 2, .heads = 1, .sequence = 3, .vocabulary = 4}, Placement::root, {});
  const auto check = [&](const std::string& from, const std::string& to) {
    const std::string header = renamed(units.model, [&](const std::string& name) { return name == from ? to : name; });
    const Safetensors file(write_tensors(header, bytes_of(units.model)));
    const std::string error = error_of([&] { check_parameters(file, units.model); });
    return error.substr(std::min(error.size(), file.path().size() + 2));
  };
  EXPECT_EQ(check("h.0.ln_1.bias", "h.0.ln1.bias"),
            "no tensor \"h.0.ln_1.bias\" [2] (the file's \"h.0.ln1.bias\" [2] is no parameter of this model)");
  EXPECT_EQ(
      check("wpe.weight", "position_embeddings"),
      "no tensor \"wpe.weight\" [3, 2] (the file's \"position_embeddings\" [3, 2] is no parameter of this model)");
}

// Hugging Face's GPT2LMHeadModel saves all but the head below "transformer.".
TEST_F(Files, DropsAPrefix) {
  const Units units = declare_units(
      {.layers = 1, .width = 2, .heads = 1, .sequence = 3, .vocabulary = 4, .tied = false}, Placement::root, {});
  const std::string header = renamed(
      units.model, [](const std::string& name) { return name == "lm_head.weight" ? name : "transformer." + name; });
  Safetensors file(write_tensors(header, bytes_of(units.model)));
  EXPECT_NE(error_of([&] { check_parameters(file, units.model); }), "no error");
  file.drop_prefix("transformer.");
  EXPECT_EQ(error_of([&] { check_parameters(file, units.model); }), "no error");

  Safetensors twice(write_tensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                  R"("x.a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                  8));
  twice.drop_prefix("x.");
  EXPECT_EQ(twice.tensors().size(), 2U);
  EXPECT_EQ(twice.tensors().count("x.a"), 1U);
}

// ---- tokens of a file

TEST_F(Files, TakesTokensStepByStep) {
  const std::string golden = std::string(RESHARD_SOURCE_DIR) + "/tests/golden/gpt/tied/tokens.safetensors";
  const TokenFile tokens(golden, {.steps = 20, .batch = 48, .length = 33, .vocabulary = 256});
  const Safetensors file(golden);
  std::vector<int32_t> got(33), wanted(33);
  tokens.training(3, 47, got);
  file.read(file.tensors().at("tokens"), (3 * 48 + 47) * 33, std::span(wanted));
  EXPECT_EQ(got, wanted);
  EXPECT_FALSE(tokens.has_validation());

  const auto open = [&](TokenFile::Needs needs) { return error_of([&] { const TokenFile t(golden, needs); }); };
  EXPECT_EQ(
      open({.steps = 21, .batch = 48, .length = 33, .vocabulary = 256}),
      golden + ": tensor \"tokens\" [20, 48, 33] has 20 steps, but the job has 21 (set train.steps to 20 at most)");
  EXPECT_EQ(open({.steps = 20, .batch = 16, .length = 33, .vocabulary = 256}),
            golden + ": tensor \"tokens\" is I32 [20, 48, 33], but I32 [any, 16, 33] is wanted");
  EXPECT_EQ(open({.steps = 1, .batch = 48, .length = 33, .vocabulary = 2}),
            golden + ": tensor \"tokens\" has 95, but tokens are 0 to 1 (set model.vocabulary to the file's)");
}

// ---- text

TEST_F(Files, ReadsAFolderInOrderWithoutBinaries) {
  write("text/b/two.txt", "bb");
  write("text/a.txt", "aa");
  write("text/b.bin", std::string("x\0y", 3));
  write("text/c", "");
  write("text/b/one.txt", std::string(9000, 'o') + std::string("\0", 1));  // past the part that is looked at
  fs::create_directory_symlink(folder_ / "text", folder_ / "text/again");
  const Text text((folder_ / "text").string(), "data.path", {.length = 2, .ranks = 1, .batch = 1, .seed = 1});
  EXPECT_EQ(text.files(), 3);
  EXPECT_EQ(text.bytes(), 9005);
  EXPECT_EQ(text.training_bytes(), 9005 - 900);
  EXPECT_EQ(text.prompt(3), (std::vector<int32_t>{'o', 'o', 'o'}));
  std::vector<int32_t> last(900);
  text.validation(0, 1, last);
  EXPECT_EQ(std::vector<int32_t>(last.end() - 3, last.end()), (std::vector<int32_t>{0, 'b', 'b'}));
}

TEST_F(Files, SaysWhatIsWrongWithText) {
  const auto open = [&](const std::string& path, int ranks = 2) {
    return error_of(
        [&] { const Text text(path, "job.toml:9:1", {.length = 11, .ranks = ranks, .batch = ranks, .seed = 1}); });
  };
  const std::string missing = (folder_ / "none").string();
  EXPECT_EQ(open(missing), "job.toml:9:1: \"" + missing + "\" does not exist (name a file or folder of text)");
  const std::string empty = write("empty.txt", "");
  EXPECT_EQ(open(empty), "job.toml:9:1: \"" + empty + "\" holds no text (name a file or folder of text)");
  write("folder/x.bin", std::string(1, '\0'));
  const std::string folder = (folder_ / "folder").string();
  EXPECT_EQ(open(folder), "job.toml:9:1: \"" + folder + "\" holds no text (name a file or folder of text)");
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    EXPECT_EQ(open(path),
              "job.toml:9:1: \"" + path + "\" is neither a regular file nor a folder (name a file or folder of text)");
  }
  const std::string small = write("small.txt", std::string(110, 'x'));
  EXPECT_EQ(open(small, 9), "no error");
  EXPECT_EQ(open(small, 10),
            "job.toml:9:1: \"" + small +
                "\" has 110 bytes of text, too little for 10 ranks: each needs a sequence of 11 bytes, "
                "and the last tenth, for validation, one more (name more text, or lower mesh.ranks or model.sequence)");
  const std::string one = write("one.txt", "x");
  EXPECT_EQ(open(one, 1),
            "job.toml:9:1: \"" + one +
                "\" has 1 byte of text, too little for 1 rank: each needs a sequence of 11 bytes, "
                "and the last tenth, for validation, one more (name more text, or lower mesh.ranks or model.sequence)");
}

// Each rank draws from a part of its own, from every place of it and from none outside; together the parts are all of
// the training text. The same numbers give the same place, another seed others.
TEST_F(Files, RanksDrawFromPartsOfTheirOwn) {
  std::string bytes;
  for (int i = 0; i < 41; ++i) bytes.push_back(static_cast<char>(i));
  const std::string path = write("counted.txt", bytes);
  for (const int ranks : {1, 2, 3}) {
    const int64_t batch = 2 * ranks, part = 37 / ranks;  // 37 training bytes
    const Text text(path, "data.path", {.length = 4, .ranks = ranks, .batch = batch, .seed = 5});
    const Text again(path, "data.path", {.length = 4, .ranks = ranks, .batch = batch, .seed = 5});
    const Text seeded(path, "data.path", {.length = 4, .ranks = ranks, .batch = batch, .seed = 6});
    std::vector<std::vector<bool>> seen(static_cast<size_t>(ranks), std::vector<bool>(41, false));
    int differ = 0;
    for (int64_t step = 0; step < 400; ++step) {
      for (int64_t number = 0; number < batch; ++number) {
        std::vector<int32_t> a(4), b(4), c(4);
        text.training(step, number, a);
        again.training(step, number, b);
        seeded.training(step, number, c);
        EXPECT_EQ(a, b);
        differ += a == c ? 0 : 1;
        for (int32_t k = 1; k < 4; ++k) EXPECT_EQ(a[static_cast<size_t>(k)], a[0] + k);
        seen[static_cast<size_t>(number / 2)][static_cast<size_t>(a[0])] = true;
      }
    }
    EXPECT_GT(differ, 700);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t end = rank + 1 == ranks ? 37 : (rank + 1) * part;
      std::vector<bool> wanted(41, false);
      for (int64_t place = rank * part; place + 4 <= end; ++place) wanted[static_cast<size_t>(place)] = true;
      EXPECT_EQ(seen[static_cast<size_t>(rank)], wanted) << "rank " << rank << " of " << ranks;
    }
    std::vector<int32_t> first(4);
    text.validation(0, 1, first);
    EXPECT_EQ(first[0], 37);
  }
}

TEST_F(Files, SpreadsValidationSequences) {
  std::string bytes(1000, 'x');
  for (size_t i = 0; i < 100; ++i) bytes[900 + i] = static_cast<char>(i);
  const Text text(write("text.txt", bytes), "data.path", {.length = 10, .ranks = 1, .batch = 1, .seed = 1});
  std::vector<int32_t> row(10);
  for (int64_t i = 0; i < 10; ++i) {
    text.validation(i, 10, row);
    EXPECT_EQ(row[0], 10 * i);
  }
  EXPECT_EQ(row[9], 99);
}

}  // namespace
}  // namespace gpt
