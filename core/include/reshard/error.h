#pragma once

// Every operating error of Reshard is one exception type: what happened, where, and what to do about it.
// Programmer errors are not errors but checks (base/check.h): they stop the process.

#include <stdexcept>
#include <string>

namespace reshard {

// What kind of thing went wrong. Programs map it to an exit code with exit_code().
enum class ErrorCode {
  config,         // the job file, the command line, or a program's own table
  plugin,         // a strategy plugin: not found, refused, failed, or gave a bad answer
  plan,           // decisions that cannot be carried out
  budget,         // the predicted peak is above [memory] budget
  model,          // a model's declaration, or a program that deviates from it
  data,           // training data or a parameter file
  io,             // a file that cannot be read or written
  communication,  // ranks disagree in a collective, or one could not be waited for
  rank_failed,    // another rank threw or returned early
  numeric,        // NaN or infinity where there must be none
  interrupted,    // SIGINT or SIGTERM, after the running step
};

// The word that stands in --json output: "config", "plugin", …
const char* name(ErrorCode code);

// 2 where the input must be mended: config, plugin, plan, budget, model, data. 130 for interrupted. 1 where a run
// failed: io, communication, rank_failed, numeric.
int exit_code(ErrorCode code);

class Error : public std::runtime_error {
 public:
  // `what`: one sentence without a full stop. `where`: "job.toml:14:12", "unit h.3, rank 2", or empty.
  // `remedy`: what to do, one sentence, or empty. `id`: "elf.truncated", a name that stays the same while texts improve;
  // refusals of plugins have one (sdk/README.md lists them).
  Error(ErrorCode code, std::string what, std::string where = {}, std::string remedy = {}, std::string id = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& remedy() const { return remedy_; }
  const std::string& id() const { return id_; }

 private:
  ErrorCode code_;
  std::string message_, where_, remedy_, id_;
};

// Error::what() reads "WHERE: WHAT (REMEDY) [ID]", without the parts that are empty.

}  // namespace reshard
