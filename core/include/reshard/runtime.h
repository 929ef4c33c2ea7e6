#pragma once

// The program's side of Reshard: the program drives, the runtime follows. Each rank has a Rank (made by launch) and, on
// it, a Runtime for one model. The program tells the runtime through hooks what it is about to do; the runtime gathers,
// frees and reduces as the plan says.
//
//   launch(job, [&](Rank& rank) {
//     Runtime runtime(job, model, rank);
//     runtime.fill(initial_values);
//     for (…) runtime.step([&](MicroBatch m) {
//       runtime.forward(kRoot, [&](const View& w) { …; for (Unit b : blocks) runtime.forward(b, …); … });
//       runtime.backward(kRoot, [&](const View& w) { … });
//       return loss;
//     });
//   });
//
// Thread rules: a Rank and its Runtime belong to one thread, the one that launch() calls the body on. Calls marked
// [collective] are made by every rank, in the same order. Errors are reshard::Error; where a call can fail for one rank
// only, the others learn of it at their next collective call.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/dtype.h"
#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/optimizer.h"
#include "reshard/report.h"

namespace reshard {

namespace comm {
class Communicator;
}
namespace engine {
class Core;
struct UnitUse;
}

// One rank's seat. Made by launch(); valid during the body.
class Rank {
 public:
  explicit Rank(comm::Communicator& all);

  int index() const;
  int count() const;
  bool first() const { return index() == 0; }

  void barrier();                              // [collective]
  std::vector<double> exchange(double value);  // [collective] every rank's value, by rank; inside of hooks too
  // After a step, or whatever a Runtime does on all ranks, that has failed and was caught: the next call, here, of that
  // Runtime or a new one's constructor, lets all ranks meet again first. Every rank makes the same one.

  comm::Communicator& communicator() { return all_; }  // for the runtime itself

 private:
  friend class engine::Core;
  void ready();

  comm::Communicator& all_;
  bool interrupted_ = false;  // something ended by an exception: the ranks meet before they go on
};

// Runs `body` once per rank of `job.mesh` and returns when all have ended: each on a thread of this process; with
// communicator = "mpi" once, as the rank that this process of a launcher is, and returns when this rank has ended. When
// a rank throws, the others end with an Error(rank_failed) naming it; launch then throws that rank's Error, or, for any
// other exception, an Error(rank_failed) with its rank, text and the original nested inside.
void launch(const Job& job, const std::function<void(Rank&)>& body);

// A unit's memory inside one hook. Pointers are valid until the hook that ends the use (after_forward, after_backward):
// the unit may lie elsewhere next time. Index = place in UnitSpec::parameters. A copy that outlives its hook may be asked
// for nothing: throws Error(model) naming parameter and unit. So does asking for the other dtype than the unit's, for
// parameters in the backward of a unit that says it does without, and for the gradient of a frozen parameter or outside
// of backward. Every call is checked for all that: take a span once per hook, not once per element. An index that the
// unit does not have stops the process.
class View {
 public:
  Dtype dtype() const;  // of parameters and gradients

  // Whole, in the parameter's own shape, row-major, 64-byte aligned.
  std::span<const float> parameter(int index) const;
  std::span<const Bf16> parameter_bf16(int index) const;

  // Backward only: same shape as the parameter. Always add into it: it is zero at the unit's first backward since it
  // was last reduced, and holds earlier micro-batches' gradients where those are not reduced one by one.
  std::span<float> gradient(int index) const;
  std::span<Bf16> gradient_bf16(int index) const;

  // The same as untyped memory, for programs that treat all dtypes alike: dtype() says what lies there.
  const void* parameter_memory(int index) const;
  void* gradient_memory(int index) const;

 private:
  friend class engine::Core;
  const engine::UnitUse& use() const;
  void require_dtype(Dtype dtype, int index) const;
  std::size_t elements(int index) const;
  const engine::UnitUse* use_ = nullptr;
  uint64_t number_ = 0;  // of the use: still open, or the view is stale
  void* parameters_ = nullptr;
  void* gradients_ = nullptr;
  bool backward_ = false;
};

// A unit's fp32 values inside Runtime::whole: to read and to write. Valid during the call; asked later, a copy throws
// Error(model).
class Values {
 public:
  std::span<float> parameter(int index) const;  // whole, in the parameter's own shape; `index` as in View

 private:
  friend class engine::Core;
  float* values_ = nullptr;
  const engine::UnitUse* use_ = nullptr;
  uint64_t number_ = 0;  // of the look: still open, or the values are stale
};

// Memory of the program's own that the ledger counts as activations. Aligned to 64 bytes, not zeroed; freed with the
// object, by the rank's thread. REQUIRES: the Runtime that gave it outlives it. Movable; a moved-from one is not used.
class Buffer {
 public:
  Buffer() = default;
  float* floats() const { return static_cast<float*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  friend class engine::Core;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  std::unique_ptr<void, void (*)(void*)> block_{nullptr, nullptr};
};

struct MicroBatch {
  int64_t step = 0;  // from 0
  int index = 0;     // in the step
  int count = 1;
};

struct StepResult {
  int64_t step = 0;
  double loss = 0;           // sum over ranks and micro-batches over [train] divisor, the same bits on every rank
  double gradient_norm = 0;  // global, of the divided gradient, before clipping; by [optimizer] norm
  double lr = 0;
  double seconds = 0;           // this rank's, hooks and kernels included
  double seconds_exposed = 0;   // of those, waiting for communication
  bool stop_requested = false;  // some rank called request_stop(): every rank sees it after the same step
  bool skipped = false;         // no update: the loss or the gradient was not finite on some rank
  bool skipped_by_program = false;  // no update: the program called skip()
  bool decided_anew = false;        // the strategy has another plan from here on: the last of Report::replans
};

// A strategy to run: a name or a path, and options over those of the job's [strategy.options.NAME].
struct StrategyChoice {
  std::string plugin;
  OptionValues options;
  std::string where;  // who asked, for errors: "job.toml:40:1"
};

// What a strategy switch did.
struct SwitchResult {
  std::string strategy;      // the new one
  std::string plan_hash;     // the new plan's
  bool same_plan = false;    // nothing changed
  bool relaid = false;       // shard_over changed: parameters and optimizer state moved
  int64_t bytes_relaid = 0;  // received by this rank for it
  int64_t peak_bytes = 0;    // this rank's highest live bytes during the switch
  double seconds = 0;
};

// A parameter's initial values: fills `values` with the elements [offset, offset + values.size()) of the parameter.
using Fill = std::function<void(std::string_view parameter, int64_t offset, std::span<float> values)>;

class Runtime {
 public:
  // Loads job.strategy's plugin, asks it, resolves the plan and checks it against [memory] budget; allocates shards and
  // optimizer state. [collective] `optimizer`: the program's own, exactly when `[optimizer] name = "program"`. Throws
  // Error: config (the job), plugin, plan, budget; communication when ranks come to different plans.
  Runtime(const Job& job, const Model& model, Rank& rank, std::unique_ptr<Optimizer> optimizer = nullptr);
  ~Runtime();

  // Parameters' values: asks `fill` for the fragments of this rank's shards only. No rank ever holds the model. Between
  // steps; what an evaluation left whole is freed first.
  void fill(const Fill& fill);

  // The whole parameter, on every rank, in fp32 whatever it is computed in. [collective], between steps: inside of one it
  // throws Error(model) and leaves the step as it is.
  std::vector<float> read(std::string_view parameter);

  // A unit's whole fp32 values, to look at or to change (averaging, surgery, export). What `look` wrote becomes the
  // shards' values, and every copy made before is dropped. [collective], between steps; all ranks must leave the same
  // values, else Error(model) on all of them names a rank that differs, and nothing has changed. `look` asks for
  // nothing that all ranks do together: read(), a step or another whole() inside of it is an Error(model), nothing written.
  void whole(Unit unit, const std::function<void(const Values&)>& look);

  // ---- A step in one call [collective]: micro-batches, reduce, norm, clip, update. `micro_batch` runs forward and
  // backward of one micro-batch and returns its loss: a mean over the micro-batch, or, with [train] divisor = "tokens", a
  // sum over its tokens. With "none" losses and gradients are added up as they are.
  //
  // When any rank throws in here before the update, the step has not happened: every rank's call throws (the others'
  // Error(rank_failed) names it), all units are sharded, gradients are dropped, and the next step() of all ranks is as if
  // this one had never begun.
  StepResult step(const std::function<double(MicroBatch)>& micro_batch);

  // The same for several micro-batches in flight (pipeline stages): `schedule` runs the passes of all of them, in any
  // order, calls enter_micro_batch() before each, and returns the sum of their losses.
  StepResult step_in_flight(const std::function<double()>& schedule);

  // A forward-only pass (evaluation, generation) between steps [collective]: `pass` calls forward hooks only.
  void evaluate(const std::function<void()>& pass);

  // ---- Hooks. forward(u, fn) is before_forward, fn, after_forward; an exception inside returns every unit to
  // `sharded`. In a step's last micro-batch a unit's gradient is reduced when its backward has run as often as its
  // forward: run all its forwards before its last backward.
  template <typename Fn>
  void forward(Unit unit, Fn&& fn) {
    guarded([&] {
      fn(before_forward(unit));
      after_forward(unit);
    });
  }
  template <typename Fn>
  void backward(Unit unit, Fn&& fn) {
    guarded([&] {
      fn(before_backward(unit));
      after_backward(unit);
    });
  }
  View before_forward(Unit unit);
  void after_forward(Unit unit);
  View before_backward(Unit unit);
  void after_backward(Unit unit);

  // ---- The stages of a step, for programs that drive them one by one: begin_step, then per micro-batch
  // begin_micro_batch and the hooks, then reduce, gradient_norm, update, end_step. Whoever catches an exception in
  // between and goes on calls abandon() first; step(), evaluate(), forward() and backward() do that themselves.
  //
  // An exception before update(), skip() or carry() has come to its end undoes the step; one between that and end_step()
  // leaves the step done, and only its result is lost. So whoever catches one goes on with the step of number steps_done(),
  // which is the same on every rank: a step that is done has counted its gradient once, and is not to be run again.
  //
  // abandon() tells the other ranks, whose step then fails too. A further one before this rank has begun anything else
  // tells nobody: all meet at what each begins next, and nothing has happened that could be undone.
  //
  // All ranks end a step in the same way; where one differs, all get an Error(model) and nothing is updated. A norm that is
  // not finite makes update() and carry() skip, as [train] stop_after_skipped says. So does a loss that is not finite on
  // any rank, where they are given this rank's sum of losses; end_step() then needs none. A loss that only end_step() is
  // given comes after the update.
  //
  // In place of update, skip() drops the step's gradients and carry() keeps them: they are added to the next step's, until
  // an update uses them up or zero_gradients() drops them.
  void begin_step();
  void begin_micro_batch();              // the next one; those before are over
  void enter_micro_batch(int index);     // one of several in flight: new, or one to go on with
  // Of this micro-batch, on this rank, for [train] divisor = "tokens". Throws Error(model) for another divisor, outside
  // of a step or after reduce(), and for a number below 0.
  void count_tokens(int64_t tokens);
  void reduce();                         // waits until this step's gradients are reduced
  double gradient_norm();                // [collective] global; independent of the sharding
  void update(double gradient_norm);     // [collective] clips by it, then the optimizer; nothing is whole afterwards
  void update(double gradient_norm, double loss_sum);
  void skip();
  void carry();
  void carry(double loss_sum);
  StepResult end_step(double loss_sum);  // [collective] the sum of this rank's micro-batches' losses
  StepResult end_step();                 // after an update or a carry that was given it, whose word stands in any case
  // Between steps: drops what carry() kept. Every rank calls it; where one does not, the next step's end is an Error(model)
  // on all ranks, and nothing is updated until those that have not called it do.
  void zero_gradients();
  void abandon() noexcept;               // every unit is sharded again, this step's gradients are dropped

  // ---- Strategies. Between steps only. [collective]
  SwitchResult switch_strategy(const StrategyChoice& choice);

  // Activations: memory of the program's, counted.
  Buffer allocate(int64_t bytes);

  // Every rank's next end_step() reports stop_requested. Callable from any thread and from a signal handler's flag
  // check.
  void request_stop();

  int64_t steps_done() const;
  Rank& rank();
  const Model& model() const;
  const Job& job() const;
  Report report() const;  // what ran and what it cost, so far
  void reset_peak();      // the measured peak starts anew at what is live now

 private:
  template <typename Fn>
  void guarded(Fn&& fn) {
    try {
      fn();
    } catch (...) {
      abandon();
      throw;
    }
  }

  std::unique_ptr<engine::Core> core_;
};

}  // namespace reshard
