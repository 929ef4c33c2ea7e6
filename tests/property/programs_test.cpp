// Property: whatever the units, the decisions, the mesh and the overlap are, and whatever a program does within the
// rules (recomputes, units left out or run several times, an order that changes, evaluations, reads, steps that end at
// any hook on all ranks or on one alone, and strategy switches between steps), every hook sees the right values,
// training leaves the very bits that a plain computation in one process leaves, memory goes back to what stays after
// every act, and its peak is the one that the scheduler's ops predict, to the byte. Method: random models, jobs and
// programs from a seed, which a failure prints. The pool itself ends the process if anything is live when the runtime
// dies.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/planning.h"
#include "schedule/totals.h"
#include "tests/engine/reference.h"
#include "tests/property/player.h"
#include "tests/property/random_job.h"

namespace reshard::property {
namespace {

using schedule::BytesByCategory;

constexpr int kAdamStates = 2;

// One thing that the program does between two points where nothing is in use, and what must be true of it.
struct Act {
  enum class Kind : uint8_t { step, abandoned, evaluation, reads, change } kind = Kind::step;
  HookCalls calls = {};
  HookCalls played = {};                     // step: `calls`, and the runs that are made up between them
  int failing = -1;                          // abandoned: the rank whose calls end where `calls` does; -1: all
  HookCalls others = {};                     // abandoned: the calls of the other ranks, a whole step's
  std::vector<std::string> parameters = {};  // reads
  StrategyChoice choice = {};                // change
  Style style = Style::bare;
  bool in_one_call = false;
  toy::Values values = {};  // before it
  toy::Reference::StepNumbers numbers = {};
  BytesByCategory before{}, peak{};
};

// Predicts the memory of one plan's acts, and carries what an evaluation keeps from act to act.
class Predictor {
 public:
  Predictor(const Job& job, const Model& model, const engine::PlannedStrategy& planned, std::vector<int> recorded)
      : scheduler_(engine::make_step(job, model, planned.plan), std::move(recorded)),
        now_(engine::resident_bytes(job, model, planned.plan.shards, kAdamStates)) {}

  void predict(Act& act, const Model& model) {
    schedule::Totals totals(now_);
    for (const HookCall& call : act.calls) {
      const std::span<const schedule::Op> ops = scheduler_.on(call.hook, call.unit);
      totals.apply(call.hook, call.unit, scheduler_.micro_batch(), ops);
      add_played(act.played, call, ops);
    }
    act.before = now_;
    act.peak = totals.peak(model).bytes;
    now_ = totals.now();
  }
  const BytesByCategory& now() const { return now_; }
  const std::vector<int>& recorded() const { return scheduler_.recorded_order(); }

 private:
  // A unit's hook marks its own run last.
  static void add_played(HookCalls& played, const HookCall& call, std::span<const schedule::Op> ops) {
    bool marked = false;
    for (const schedule::Op& op : ops) {
      const std::optional<Hook> hook = marked_hook(op.kind);
      if (!hook) continue;
      played.push_back({*hook, op.unit, schedule::kMadeUp});
      marked = true;
    }
    const bool own = marked && played.back().hook == call.hook && played.back().unit == call.unit;
    if (own)
      played.back() = call;
    else
      played.push_back(call);
  }

  static std::optional<Hook> marked_hook(schedule::OpKind kind) {
    switch (kind) {
      case schedule::OpKind::forward_begin: return Hook::before_forward;
      case schedule::OpKind::forward_end: return Hook::after_forward;
      case schedule::OpKind::backward_begin: return Hook::before_backward;
      case schedule::OpKind::backward_end: return Hook::after_backward;
      default: return std::nullopt;
    }
  }

  schedule::Scheduler scheduler_;
  BytesByCategory now_{};
};

class Story {
 public:
  explicit Story(int seed) : dice_(static_cast<uint64_t>(seed)) {
    ranks_ = seed % 15 == 14 ? 8 : dice_.pick({1, 2, 3, 4, 4});
    shared_ = seed % 4 == 3;
    model_ = schedule::random_model(dice_, seed % 10 == 0 ? 40 : 8, 500, shared_ ? 0.5 : 0);
    job_ = random_job(dice_, model_, ranks_, "zero3", dice_.pick({0.5, 0.8}));
    make();
  }

  void run() const {
    launch(job_, [&](Rank& rank) {
      Runtime runtime(job_, model_, rank);
      toy::fill(runtime);
      for (std::size_t a = 0; a < acts_.size(); ++a) {
        try {
          play(runtime, acts_[a]);
          if (acts_[a].kind == Act::Kind::step)
            require(toy::read_all(runtime) == (a + 1 < acts_.size() ? acts_[a + 1].values : end_), "other parameters");
        } catch (const std::exception& error) {
          throw std::runtime_error(
              fmt::format("act {} (kind {}): {}", a, static_cast<int>(acts_[a].kind), error.what()));
        }
      }
      runtime.reset_peak();
      require(runtime.report().measured.bytes == at_the_end_, "not all is given back at the end");
    });
  }

  std::string text() const {
    return fmt::format("ranks {}, micro-batches {}, overlap {}, units {}, acts {}", ranks_, job_.train.microbatches,
                       job_.mesh.overlap, model_.unit_count(), acts_.size());
  }

 private:
  void make() {
    toy::Reference reference(job_, model_);
    schedule::RandomProgram random(model_, dice_, shared_);
    engine::PlannedStrategy planned = engine::plan_strategy(job_, model_, engine::chosen_strategy(job_), kAdamStates);
    auto predictor = std::make_unique<Predictor>(job_, model_, planned, std::vector<int>{});
    int64_t steps = 0;
    const int count = dice_.roll(4, 8);
    for (int a = 0; a < count || steps == 0; ++a) {
      Act act = random_act(random);
      act.values = reference.values;
      if (act.kind == Act::Kind::change) {
        act.before = predictor->now();
        planned = engine::plan_strategy(job_, model_, act.choice, kAdamStates);
        predictor = std::make_unique<Predictor>(job_, model_, planned, predictor->recorded());
      } else {
        predictor->predict(act, model_);
      }
      if (act.kind == Act::Kind::step) act.numbers = reference.step(steps++, planned.plan, act.played);
      acts_.push_back(std::move(act));
    }
    at_the_end_ = predictor->now();
    end_ = reference.values;
  }

  Act random_act(schedule::RandomProgram& random) {
    Act act;
    act.style = dice_.pick({Style::bare, Style::closures, Style::mixed});
    act.in_one_call = dice_.chance(0.5);
    act.kind = dice_.pick({Act::Kind::step, Act::Kind::step, Act::Kind::step, Act::Kind::step, Act::Kind::abandoned,
                           Act::Kind::evaluation, Act::Kind::reads, Act::Kind::change, Act::Kind::change});
    switch (act.kind) {
      case Act::Kind::step: act.calls = random.step(job_.train.microbatches); break;
      case Act::Kind::abandoned: {
        act.calls = random.step(job_.train.microbatches);
        if (dice_.chance(0.7)) act.failing = dice_.roll(0, ranks_ - 1);
        act.others = act.calls;
        std::size_t end = 0;
        while (act.calls[end].hook != Hook::reduce && act.calls[end].hook != Hook::update) ++end;
        // What fails on one rank alone fails inside of the step.
        act.calls.resize(static_cast<std::size_t>(dice_.roll(act.failing < 0 ? 1 : 2, static_cast<int>(end))));
        act.calls.push_back({Hook::abandon});
        break;
      }
      case Act::Kind::evaluation: act.calls = random.evaluation(); break;
      case Act::Kind::reads:
        for (int u = 0; u < model_.unit_count(); ++u)
          for (const Parameter& p : model_.spec({u}).parameters) {
            if (!dice_.chance(0.2)) continue;
            act.parameters.push_back(p.name);
            act.calls.push_back({Hook::before_read, u});
            act.calls.push_back({Hook::after_read, u});
          }
        break;
      case Act::Kind::change:
        act.choice = {toy::plugin(dice_.pick({"zero3", "zero2", "zero1", "root_no_reshard", "replicate", "replicate",
                                              "hybrid", "node_reshard", "keep_last"})),
                      {},
                      "test"};
        break;
    }
    return act;
  }

  void play(Runtime& runtime, const Act& act) const {
    runtime.reset_peak();
    require(runtime.report().measured.bytes == act.before, "other bytes are live before it than predicted");
    Player player(runtime, &act.values, act.calls, act.style);
    switch (act.kind) {
      case Act::Kind::step: {
        const StepResult result = player.step(act.in_one_call).value();
        require(result.gradient_norm == act.numbers.norm, "another gradient norm");
        require(result.loss == act.numbers.loss, "another loss");
        break;
      }
      case Act::Kind::abandoned: {
        const bool another = act.failing >= 0 && act.failing != runtime.rank().index();
        const HookCalls begun = another ? act.others : HookCalls(act.calls.begin(), act.calls.end() - 1);
        require(!Player(runtime, &act.values, begun, act.style, another).step(act.in_one_call), "the step ended");
        if (another) return;  // it may have come further, or not as far
        break;
      }
      case Act::Kind::evaluation: player.evaluate(); break;
      case Act::Kind::reads:
        for (const std::string& name : act.parameters)
          require(runtime.read(name) == act.values.at(name), "other values of " + name);
        break;
      case Act::Kind::change: runtime.switch_strategy(act.choice); return;
    }
    // What is made up saves nothing, and is predicted as if it did.
    if (shared_) return require(peak_of(runtime) <= MemoryPeak{act.peak, "", ""}.total(), "the peak is above the predicted one");
    // A rank that another one's end has interrupted has not come as far as that one.
    const int64_t peak = peak_of(runtime);
    if (act.kind == Act::Kind::abandoned && peak <= MemoryPeak{act.peak, "", ""}.total()) return;
    require(runtime.report().measured.bytes == act.peak,
            fmt::format("the peak is {} bytes, predicted {}", runtime.report().measured.total(),
                        MemoryPeak{act.peak, "", ""}.total()));
  }

  static int64_t peak_of(const Runtime& runtime) { return runtime.report().measured.total(); }

  schedule::Dice dice_;
  int ranks_ = 1;
  bool shared_ = false;  // units may be unused, and are left out by all ranks
  Model model_{{.name = "root"}};
  Job job_;
  std::vector<Act> acts_;
  BytesByCategory at_the_end_{};
  toy::Values end_;
};

class Programs : public testing::TestWithParam<int> {};

TEST_P(Programs, LeaveTheBitsOfOneProcess) {
  const Story story(GetParam());
  SCOPED_TRACE(fmt::format("seed {}, {}", GetParam(), story.text()));
  EXPECT_NO_THROW(story.run());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Programs, testing::Range(0, 400));

}  // namespace
}  // namespace reshard::property
