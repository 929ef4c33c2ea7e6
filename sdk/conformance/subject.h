#pragma once

// The plugin of a test as a host has it, without the host's own care: the tests call the C table themselves.

#include <reshard/plugin.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conformance/trial.h"
#include "plugin/host.h"
#include "plugin/library.h"
#include "plugin/option_table.h"
#include "strategy/problem.h"

namespace reshard::conformance {

using Settings = std::vector<plugin::OptionSetting>;

// How a test speaks to the plugin: as a 1.0 host does, or in another way that the header allows.
struct Manner {
  bool tails = false;          // every struct that may grow ends in members of a later minor, and so does each unit
  bool unknown_flags = false;  // bits in a unit's flags that the header does not know
  bool loose_names = false;    // texts are followed by more bytes, not by NUL
  bool null_error = false;
  uint32_t error_size = sizeof(reshard_error);
  int refuse_at = 0;  // the k-th call of a function of the plan fails, k from 1; 0 = none
  int32_t refusal = RESHARD_BAD_ANSWER;
  bool peak_unknown = false;
};

// What a call gave back.
struct Result {
  int32_t status = RESHARD_OK;
  std::string text, key;  // of a failure
  Answers answers;
  int calls = 0;  // of the plan's functions
  bool asked_peak = false;
};

// A host's table, perhaps a later one's.
class HostTable {
 public:
  explicit HostTable(bool later = false);
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;
  const reshard_host* raw() const { return &raw_.head; }

 private:
  struct Later {
    reshard_host head;
    unsigned char tail[64];
  };
  Later raw_;
};

// A caller's error buffer that knows when more than its size was written.
class ErrorBuffer {
 public:
  explicit ErrorBuffer(const Manner& manner);
  reshard_error* raw() { return null_ ? nullptr : &raw_.head; }
  // Fails the test where the plugin wrote behind the end, or says sizes that cannot be.
  void check(const char* function) const;
  std::string text() const, key() const;

 private:
  struct Guarded {
    reshard_error head;
    unsigned char tail[64];
  };
  Guarded raw_;
  uint32_t size_;
  bool null_;
};

// The library, between init and deinit.
class Subject {
 public:
  // Fails the test where it cannot be loaded or init fails.
  explicit Subject(const Trial& trial, const Manner& manner = {});
  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  void init();
  void deinit();
  const reshard_entry& entry() const { return library_->entry(); }
  const reshard_strategy& table() const { return *entry().strategies[0]; }
  const std::vector<plugin::OptionSpec>& options() const { return options_; }
  Settings defaults() const;

  // create; *instance is what it left there.
  Result create(const Settings& settings, void** instance, const Manner& manner = {}) const;
  void destroy(void* instance) const { table().destroy(instance); }
  Result decide(void* instance, const Problem& problem, const Manner& manner = {}) const;

 private:
  Manner manner_;
  HostTable host_;
  plugin::Library* library_ = nullptr;
  std::vector<plugin::OptionSpec> options_;
  bool inited_ = false;
};

// An instance with these settings, or a failed test.
class Instance {
 public:
  Instance(const Subject& subject, const Settings& settings, const Manner& manner = {});
  explicit Instance(const Subject& subject) : Instance(subject, subject.defaults()) {}
  ~Instance() { end(); }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  void end();
  Result decide(const Problem& problem, const Manner& manner = {}) const {
    return subject_.decide(raw_, problem, manner);
  }
  void* raw() const { return raw_; }

 private:
  const Subject& subject_;
  void* raw_ = nullptr;
};

// A value for an option that a user could have given: the default, where there is one.
plugin::OptionSetting some_value(const plugin::OptionSpec& option);

// Fails the test unless the failure is one that a strategy may have for what a user gave it: an option that it names,
// or a problem, with a text. `what` is what was asked, as in "with ahead = 8".
void check_refusal(const Subject& subject, const Result& result, const std::string& function, const std::string& what);

// Everything that was answered, as text: equal texts, equal answers.
std::string answers_text(const Problem& problem, const Result& result);

// The first line in which two texts differ: `unit h.0 keep 1 "why" and unit h.0 free 1 ""`.
std::string difference(const std::string& one, const std::string& other);

std::string status_text(int32_t status);
bool is_utf8(std::string_view text);

}  // namespace reshard::conformance
