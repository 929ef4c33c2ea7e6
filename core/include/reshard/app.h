#pragma once

// `reshard::app` gives any program the commands train, explain, compare and plugins on its own model. The program
// brings a Program (what it is, its tables, its model) and a Trainer per rank (its kernels and data). See examples/mlp
// for a whole one.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/optimizer.h"
#include "reshard/runtime.h"
#include "reshard/table.h"

namespace reshard {

// One rank's half of a program: made after the plan is accepted, used by that rank's thread only.
class Trainer {
 public:
  virtual ~Trainer() = default;

  // Initial values (see Runtime::fill). Called once, before the first step.
  virtual void fill(Runtime& runtime) = 0;

  // Forward and backward of one micro-batch through the runtime's hooks; returns the loss: a mean over the micro-batch,
  // or with [train] divisor = "tokens" the sum over its tokens.
  virtual double micro_batch(Runtime& runtime, MicroBatch at) = 0;

  // Validation loss over the whole job, by forward-only passes (runtime.evaluate is called around it); this rank's
  // part. Empty: the program has no validation data.
  virtual std::optional<double> evaluate(Runtime& runtime) {
    (void)runtime;
    return std::nullopt;
  }

  // A sample of what the model has learnt, shown after training. Every rank takes part (inside runtime.evaluate); the
  // first rank's text is printed. Empty: none. One that takes longer than a moment asks stop() between two passes, on
  // every rank as often [collective]: true, on all ranks at once, when a signal asks the run to end. Then it returns
  // what it has.
  virtual std::string sample(Runtime& runtime, const std::function<bool()>& stop) {
    (void)runtime, (void)stop;
    return "";
  }
};

class Program {
 public:
  virtual ~Program() = default;

  virtual std::string name() const = 0;                          // as in "gpt train job.toml"
  virtual std::string summary() const = 0;                       // one line for --help
  virtual std::string default_job() const { return ""; }         // shown in hints: "examples/gpt/job.toml"
  virtual std::string sample_unit() const { return "samples"; }  // what rates are counted in: "tokens"

  // Declares the program's own tables; `tables` binds their keys to fields of this object, which are set before
  // model().
  virtual void declare(Tables& tables) { (void)tables; }

  // A flag of the program's own for train, explain and compare: "--from FILE". Its target is set before model().
  struct Flag {
    std::string name;   // "--from"
    std::string value;  // "FILE"
    std::string doc;
    std::string* target;
    std::string key = {};  // a text key that the flag replaces, as --set would: "data.path"; empty: none
  };
  virtual std::vector<Flag> flags() { return {}; }

  // Checks what crosses tables, and declares the model. Called once per job, before any rank starts; `explain` calls
  // it too, so data is not opened here. Throws Error (config with the key's place, model).
  virtual Model model(const Job& job, const Tables& tables) = 0;

  // Opens what training reads: data, parameter files. Called after model(), once the plan is accepted, before any rank
  // starts; never by `explain`. Throws Error (config with the key's place, data).
  virtual void open(const Job& job) { (void)job; }

  // The program's own optimizer, for `[optimizer] name = "program"` only: called for the plan, and once per rank and
  // run, on the rank's thread: for several ranks at the same time.
  virtual std::unique_ptr<Optimizer> optimizer(const Job& job) {
    (void)job;
    return nullptr;
  }

  // Called once per rank and run, on the rank's thread: for several ranks at the same time.
  virtual std::unique_ptr<Trainer> trainer(const Job& job, Runtime& runtime) = 0;

  // Work of one step over all ranks, for rates (tokens); 0 = not shown.
  virtual int64_t samples_per_step(const Job& job) const = 0;

  // Lines about the model and the data for the start-up table: {"parameters", "10.8 M"}. Called after open().
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
};

// Parses the command line, runs the command, prints, and returns the exit code. Never throws.
int app(int argc, char** argv, Program& program);

}  // namespace reshard
