// A program of its own around the bare hooks: torch::nn, its autograd and torch::optim train on Reshard's shards.
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include <ATen/Parallel.h>

#include "adam.h"
#include "reverser.h"
#include "units.h"

using namespace reshard;

namespace {

class Training {
 public:
  Training(const Job& job, const ReverserOptions& options, Rank& rank, Reverser net)
      : job_(job),
        options_(options),
        rank_(rank),
        net_(std::move(net)),
        runtime_(job, sharded::declare(*net_, "blocks"), rank,
                 std::make_unique<sharded::Adam>(torch::optim::AdamOptions().betas({0.9, 0.99}))),
        units_(*net_, "blocks", runtime_) {}

  StepResult step() {
    double loss_sum = 0;
    runtime_.begin_step();
    for (int m = 0; m < job_.train.microbatches; ++m) {
      runtime_.begin_micro_batch();
      const torch::Tensor loss = units_.forward([&] { return reversal_loss(net_, next_rows()); });
      units_.backward(loss);
      loss_sum += loss.item<double>();
    }
    runtime_.reduce();
    runtime_.update(runtime_.gradient_norm(), loss_sum);
    return runtime_.end_step();
  }

  // The part of all digits that is right, over rows that training has not seen. [collective]
  double accuracy() {
    double right = 0;
    runtime_.evaluate([&] {
      const torch::NoGradGuard forward_only;
      const torch::Tensor rows = rows_of_digits(rank_.index(), 256, options_.length);
      const torch::Tensor answers = units_.forward([&] { return net_->forward(rows).argmax(2); });
      right = answers.eq(rows.flip(1)).to(torch::kDouble).mean().item<double>();
    });
    double sum = 0;
    for (const double one : rank_.exchange(right)) sum += one;
    return sum / rank_.count();
  }

 private:
  torch::Tensor next_rows() {
    const int64_t batch = job_.train.global_batch / (int64_t{rank_.count()} * job_.train.microbatches);
    return rows_of_digits(1000 + rank_.count() * batches_++ + rank_.index(), batch, options_.length);
  }

  const Job& job_;
  const ReverserOptions options_;
  Rank& rank_;
  Reverser net_;
  Runtime runtime_;
  sharded::Units units_;
  int64_t batches_ = 0;
};

void train_rank(const Job& job, const ReverserOptions& options, Rank& rank, std::mutex& one_by_one) {
  at::set_num_threads(1);
  Reverser net = nullptr;
  {
    const std::lock_guard lock(one_by_one);
    torch::manual_seed(job.train.seed);
    net = Reverser(options);
  }
  Training training(job, options, rank, net);
  for (int64_t s = 0; s < job.train.steps; ++s) {
    const StepResult result = training.step();
    if (rank.first() && (s % 50 == 0 || s + 1 == job.train.steps))
      std::printf("step %4ld  loss %.4f\n", static_cast<long>(s), result.loss);
  }
  const double accuracy = training.accuracy();
  if (rank.first()) std::printf("%.1f %% of the digits are where they belong\n", 100 * accuracy);
}

void train(const Job& job, const ReverserOptions& options) {
  std::mutex one_by_one;  // LibTorch's generator of initial values is one for all threads
  launch(job, [&](Rank& rank) {
    try {
      train_rank(job, options, rank, one_by_one);
    } catch (const c10::Error& error) {  // its what() is a stack trace
      throw std::runtime_error(error.what_without_backtrace());
    }
  });
}

// What LibTorch would refuse with a stack trace, or not at all.
void check(const Job& job, const ReverserOptions& options) {
  if (options.width % options.heads != 0)
    throw Error(ErrorCode::config,
                "net.heads = " + std::to_string(options.heads) +
                    " does not divide net.width = " + std::to_string(options.width),
                job.where(job.where("net.heads") == "default" ? "net.width" : "net.heads"),
                "the width is a multiple of the heads");
  const int64_t parts = int64_t{job.rank_count()} * job.train.microbatches;
  if (job.train.global_batch % parts != 0)
    throw Error(ErrorCode::config,
                "train.global_batch = " + std::to_string(job.train.global_batch) + " does not divide among " +
                    std::to_string(parts) + " ranks and micro-batches",
                job.where("train.global_batch"), "use a multiple of " + std::to_string(parts));
}

constexpr const char* kUsage = "usage: torch_reverse JOB [STRATEGY]\n";
constexpr const char* kHelp =
    "\n"
    "Trains a torch::nn transformer to reverse rows of digits, sharded over ranks.\n"
    "  JOB       a job file with a table [net]: length (of a row), width, layers, heads (a divisor of width)\n"
    "  STRATEGY  in place of the job's: a name, or the path of a .so\n"
    "\n"
    "example: torch_reverse examples/libtorch/job.toml zero2\n";

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (argv[1] == std::string_view("--help") || argv[1] == std::string_view("-h")))
    return std::printf("%s%s", kUsage, kHelp) > 0 && std::fflush(stdout) == 0 ? 0 : 1;
  if (argc < 2 || argc > 3 || argv[argc - 1][0] == '-') {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    ReverserOptions options;
    Tables tables;
    tables.emplace_back("net", "The transformer.")
        .key("length", &options.length, {.doc = "Digits of a row.", .min = 1, .max = 1000})
        .key("width", &options.width, {.doc = "A multiple of heads.", .min = 1, .max = 4096})
        .key("layers", &options.layers, {.min = 1, .max = 1000})
        .key("heads", &options.heads, {.min = 1, .max = 64});
    Job job = read_job(argv[1], tables);
    if (argc == 3) {
      job.strategy.plugin = argv[2];
      job.places["strategy.plugin"] = {"command line", true};
    }
    check(job, options);
    train(job, options);
    if (std::fflush(stdout) == 0) return 0;
    throw Error(ErrorCode::io, "cannot write all of the output", "stdout");
  } catch (const Error& error) {
    std::fprintf(stderr, "torch_reverse: %s\n", error.what());
    return exit_code(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_reverse: %s\n", error.what());
    return 1;
  }
}
