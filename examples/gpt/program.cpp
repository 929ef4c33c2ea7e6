#include "program.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "reshard/error.h"
#include "reshard/text.h"

namespace gpt {

using reshard::Error;
using reshard::ErrorCode;
using reshard::Job;

namespace {

constexpr int64_t kPromptBytes = 24;
constexpr int kByteTokens = 256;

// Floats that attention may keep over all blocks: what is above would not be a number of bytes any more.
constexpr double kMostFloats = 0x1p56;

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int by = 1; by <= n; ++by) {
    if (n % by == 0) all.push_back(by);
  }
  return all;
}

// The place of the key that the user gave; of two that do not fit, the first one that was.
std::string where(const Job& job, const std::string& key, const std::string& other) {
  const std::string place = job.where(key);
  return place == "default" ? job.where(other) : place;
}

}  // namespace

// The one that was installed with this program, or the repository's.
std::string Program::default_job() const {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed = (program.parent_path() / GPT_JOB_FROM_BIN).lexically_normal();
  if (!error && std::filesystem::exists(installed, error)) return installed.string();
  return "examples/gpt/job.toml";
}

void Program::declare(reshard::Tables& tables) {
  tables.emplace_back("model", "The network: GPT-2's architecture.");
  tables.back()
      .key("layers", &shape_.layers, {.doc = "blocks", .min = 1, .max = 1000})
      .key("width", &shape_.width, {.doc = "a multiple of heads", .min = 1, .max = 65536})
      .key("heads", &shape_.heads, {.doc = "of attention", .min = 1, .max = 65536})
      .key("sequence", &shape_.sequence, {.doc = "tokens that a prediction looks back on", .min = 1, .max = 65536})
      .key("vocabulary", &shape_.vocabulary, {.doc = "256 = byte tokens", .min = 2, .max = 1 << 24})
      .key("tied", &shape_.tied, {.doc = "the head's matrix is the token embedding"})
      .key("units", &units_,
           {.doc = "embeddings, last norm, head: in the root unit | \"split\": units of their own (untied only)",
            .choices = {"root", "split"}});
  tables.emplace_back("data", "What is learnt.");
  tables.back().key("path", &path_,
                    {.doc = "a file or folder of text, by default the compiler's headers; also --data PATH",
                     .path = reshard::PathKind::file,
                     .not_empty = true});
  tables.emplace_back("sample", "What the model writes after training.");
  tables.back().key("tokens", &sample_tokens_, {.doc = "of text; 0 = no sample", .min = 0, .max = 1e9});
}

std::vector<Program::Flag> Program::flags() {
  return {{"--data", "PATH", "a file or folder of text, instead of data.path", &data_, "data.path"},
          {"--from", "FILE", "initial parameters: a .safetensors file with GPT-2's names", &from_},
          {"--tokens", "FILE",
           "a .safetensors file with \"tokens\" int32 [steps, batch, sequence + 1], instead of text", &tokens_}};
}

void Program::check_shape(const Job& job) const {
  if (!tokens_.empty() && !data_.empty())
    throw Error(ErrorCode::config, "--tokens and --data are both given, and a run reads one of them", "command line",
                "leave one out");
  if (shape_.width % shape_.heads != 0) {
    const std::vector<int> fitting = divisors(shape_.width);
    throw Error(ErrorCode::config, fmt::format("heads = {} does not divide width = {}", shape_.heads, shape_.width),
                where(job, "model.heads", "model.width"),
                fmt::format("heads can be {}", reshard::base::list_text(fitting)));
  }
  if (units_ == "split" && shape_.tied) {
    throw Error(ErrorCode::config, "units = \"split\" needs tied = false: a tied matrix is in both units",
                where(job, "model.units", "model.tied"), "set tied = false, or units = \"root\"");
  }
  if (job.train.divisor == "tokens") {
    throw Error(ErrorCode::config,
                "divisor = \"tokens\" is not for this program: all its micro-batches have equally many",
                job.where("train.divisor"), "use divisor = \"ranks\", which is the same mean");
  }
  if (tokens_.empty() && shape_.vocabulary < kByteTokens) {
    throw Error(ErrorCode::config, fmt::format("vocabulary = {} is too small for bytes of text", shape_.vocabulary),
                job.where("model.vocabulary"), "set it to 256");
  }
}

// All in 64 bits and fp64, before anything is computed from the sizes.
void Program::check_size(const Job& job, int64_t sequences) const {
  const int64_t tokens = sequences * shape_.sequence;
  const double scores = static_cast<double>(tokens) * shape_.sequence * shape_.heads * shape_.layers;
  if (tokens <= Batch::kMostTokens && scores <= kMostFloats) return;
  throw Error(ErrorCode::config,
              fmt::format("a micro-batch of {} tokens is too large for this model", reshard::base::count_text(tokens)),
              where(job, "train.global_batch", "model.sequence"),
              "lower train.global_batch or model.sequence, or raise mesh.ranks or train.microbatches");
}

Batch Program::micro_batch_of(const Job& job) const {
  const int64_t parts = int64_t{job.rank_count()} * job.train.microbatches;
  if (job.train.global_batch % parts != 0)
    throw std::logic_error("a job whose batch does not divide is refused before");
  const int64_t sequences = job.train.global_batch / parts;
  check_size(job, sequences);
  return {static_cast<int>(sequences), shape_.sequence};
}

void Program::open_text(const Job& job) {
  std::string place = job.where("data.path");
  if (place == "default") place = "data.path, as it is by default";
  auto text = std::make_unique<const Text>(path_, place,
                                           Text::Needs{.length = shape_.sequence + 1,
                                                       .ranks = job.rank_count(),
                                                       .batch = job.train.global_batch,
                                                       .seed = job.train.seed});
  setup_.prompt = text->prompt(std::min<int64_t>(kPromptBytes, shape_.sequence));
  facts_.emplace_back("data", fmt::format("{}: {} in {} file{}", path_, reshard::base::bytes_text(text->bytes()),
                                          reshard::base::count_text(text->files()), text->files() == 1 ? "" : "s"));
  setup_.tokens = std::move(text);
}

reshard::Model Program::model(const Job& job, const reshard::Tables&) {
  check_shape(job);
  setup_.shape = shape_;
  setup_.batch = micro_batch_of(job);
  setup_.seed = job.train.seed;
  setup_.sample_tokens = sample_tokens_;
  setup_.units = declare_units(shape_, units_ == "split" ? Placement::split : Placement::root, setup_.batch);
  const auto& said = job.strategy.units;
  const bool narrow =
      job.precision.param_dtype != "fp32" || std::any_of(said.begin(), said.end(), [](const auto& entry) {
        return entry.param_dtype && entry.param_dtype->value != reshard::Dtype::fp32;
      });
  setup_.bf16 = narrow && multiplies_bf16();
  const Workspace workspace(shape_, setup_.batch, setup_.bf16, nullptr);
  const int64_t numbers = narrow ? numbers_scratch_floats(setup_.units.model) : 0;
  setup_.units.model.hold_bytes((workspace.floats + numbers) * static_cast<int64_t>(sizeof(float)));

  facts_ = {{"model", fmt::format("GPT-2, {} layers, width {}, {} heads, {} tokens, {} head", shape_.layers,
                                  shape_.width, shape_.heads, shape_.sequence, shape_.tied ? "tied" : "untied")},
            {"parameters", reshard::base::count_text(setup_.units.model.parameter_count())}};
  if (narrow)
    facts_.emplace_back("products", setup_.bf16 ? "bf16 weights in bf16, summed in fp32 (oneDNN)"
                                                : "bf16 weights widened to fp32: this machine or this build cannot "
                                                  "multiply bf16");
  return setup_.units.model;
}

void Program::open(const Job& job) {
  setup_.prompt.clear();
  if (tokens_.empty()) {
    open_text(job);
  } else {
    setup_.tokens = std::make_unique<const TokenFile>(tokens_, TokenFile::Needs{.steps = job.train.steps,
                                                                                .batch = job.train.global_batch,
                                                                                .length = shape_.sequence + 1,
                                                                                .vocabulary = shape_.vocabulary});
    facts_.emplace_back("tokens", tokens_);
    // There is no text to hold back, nor to begin a sample with.
    facts_.emplace_back("validation", job.train.evaluate_every == 0
                                          ? std::string("none, and no sample, with --tokens")
                                          : fmt::format("none, and no sample, with --tokens: train.evaluate_every = {} "
                                                        "({}) is ignored",
                                                        job.train.evaluate_every, job.where("train.evaluate_every")));
  }
  setup_.parameters.reset();
  if (!from_.empty()) {
    auto file = std::make_unique<Safetensors>(from_);
    file->drop_prefix("transformer.");  // as in the files of Hugging Face's model with a head
    check_parameters(*file, setup_.units.model);
    setup_.parameters = std::move(file);
    facts_.emplace_back("initial parameters", from_);
  }
}

std::unique_ptr<reshard::Trainer> Program::trainer(const Job&, reshard::Runtime& runtime) {
  return std::make_unique<Trainer>(setup_, runtime);
}

int64_t Program::samples_per_step(const Job& job) const {
  return job.train.global_batch * shape_.sequence;
}

std::vector<std::pair<std::string, std::string>> Program::facts() const {
  return facts_;
}

}  // namespace gpt
