// A program with its own main and its own loop: two ranks fit y = 3x - 1 under the strategy that the command line
// names.
#include <cmath>
#include <cstdio>

#include <reshard/error.h>
#include <reshard/runtime.h>

using namespace reshard;

static double micro_batch(Runtime& runtime, MicroBatch at) {
  const int64_t place = (at.step * at.count + at.index) * runtime.rank().count() + runtime.rank().index();
  const float x = static_cast<float>(place % 5) - 2, target = 3 * x - 1;
  float y = 0;
  runtime.forward(kRoot, [&](const View&) {
    runtime.forward(Unit{1}, [&](const View& line) { y = line.parameter(0)[0] * x + line.parameter(1)[0]; });
  });
  runtime.backward(kRoot, [&](const View&) {
    runtime.backward(Unit{1}, [&](const View& line) {
      line.gradient(0)[0] += 2 * (y - target) * x;
      line.gradient(1)[0] += 2 * (y - target);
    });
  });
  return (y - target) * (y - target);
}

int main(int, char** argv) try {
  Job job;
  job.strategy.plugin = argv[1];
  job.mesh.ranks = 2;
  job.train.microbatches = 2;
  job.optimizer.name = "sgd";
  job.optimizer.lr = 0.1;
  Model model({.name = "outside"});
  model.add({.name = "line", .parameters = {{"weight", {1}}, {"bias", {1}}}});
  bool learnt = false;
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    runtime.fill([](std::string_view, int64_t, std::span<float> values) {
      for (float& value : values) value = 0;
    });
    for (int step = 0; step < 100; ++step) runtime.step([&](MicroBatch at) { return micro_batch(runtime, at); });
    const float weight = runtime.read("weight")[0], bias = runtime.read("bias")[0];
    if (!rank.first()) return;
    std::printf("y = %.3f x %+.3f\n", weight, bias);
    learnt = std::abs(weight - 3) < 0.01F && std::abs(bias + 1) < 0.01F;
  });
  return learnt ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "acme_trainer: %s\n", error.what());
  return exit_code(error.code());
}
