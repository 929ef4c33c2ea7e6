// Subject::decide: the problem and the plan as the test's manner wants them.

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "plugin/answers.h"

namespace reshard::conformance {
namespace {

// A unit of a later host, as long as its unit_size says.
struct LaterUnit {
  reshard_unit head;
  unsigned char tail[24];
};

struct LaterProblem {
  reshard_problem head;
  unsigned char tail[64];
};

constexpr uint32_t kUnknownFlags = 0xFFFF0000U;

// The C problem; points into `problem`, which must outlive it.
class RawProblem {
 public:
  RawProblem(const Problem& problem, const Manner& manner) : table_(problem), units_(problem.units.size()) {
    std::memset(&raw_, 0xA5, sizeof raw_);
    raw_.head = *table_.raw();
    for (std::size_t i = 0; i < units_.size(); ++i) {
      std::memset(static_cast<void*>(&units_[i]), 0xA5, sizeof units_[i]);
      units_[i].head = raw_.head.units[i];
      if (manner.unknown_flags) units_[i].head.flags |= kUnknownFlags;
      if (manner.loose_names) names_ += problem.units[i].name + "#";
    }
    // All names in one text: what follows a name is the next one.
    std::size_t at = 0;
    for (std::size_t i = 0; manner.loose_names && i < units_.size(); ++i) {
      units_[i].head.name = {names_.data() + at, problem.units[i].name.size()};
      at += problem.units[i].name.size() + 1;
    }
    if (manner.tails) {
      raw_.head.struct_size = sizeof raw_;
      raw_.head.unit_size = sizeof(LaterUnit);
      raw_.head.units = &units_.data()->head;
      return;
    }
    for (const LaterUnit& unit : units_) plain_.push_back(unit.head);
    raw_.head.units = plain_.data();
  }
  const reshard_problem* raw() const { return &raw_.head; }

 private:
  plugin::ProblemTable table_;
  std::vector<LaterUnit> units_;
  std::vector<reshard_unit> plain_;
  std::string names_;
  LaterProblem raw_;
};

// The plan's functions: the host's own sink behind a counter that may refuse.
class Recorder {
 public:
  Recorder(const Problem& problem, const Manner& manner) : sink_(problem), manner_(manner), raw_{} {
    std::memset(raw_.tail, 0xA5, sizeof raw_.tail);
    raw_.head = *sink_.table();
    raw_.head.struct_size = static_cast<uint32_t>(manner.tails ? sizeof raw_ : sizeof raw_.head);
    raw_.head.context = this;
    raw_.head.set_unit = [](void* self, uint32_t unit, const reshard_decision* decision, reshard_text reason,
                            reshard_error* error) {
      return of(self).pass(
          error, [&](const reshard_plan& to) { return to.set_unit(to.context, unit, decision, reason, error); });
    };
    raw_.head.set_shard_over = [](void* self, uint32_t ranks, reshard_text reason, reshard_error* error) {
      return of(self).pass(error,
                           [&](const reshard_plan& to) { return to.set_shard_over(to.context, ranks, reason, error); });
    };
    raw_.head.set_all_reduce = [](void* self, uint32_t when, reshard_text reason, reshard_error* error) {
      return of(self).pass(error,
                           [&](const reshard_plan& to) { return to.set_all_reduce(to.context, when, reason, error); });
    };
    raw_.head.clear = [](void* self, uint32_t unit, reshard_error* error) {
      return of(self).pass(error, [&](const reshard_plan& to) { return to.clear(to.context, unit, error); });
    };
    raw_.head.predicted_peak = [](void* self, int64_t* bytes, reshard_error* error) {
      Recorder& recorder = of(self);
      recorder.asked_peak = true;
      return recorder.pass(error, [&](const reshard_plan& to) {
        const int32_t status = to.predicted_peak(to.context, bytes, error);
        if (status == RESHARD_OK && recorder.manner_.peak_unknown) *bytes = -1;
        return status;
      });
    };
  }

  const reshard_plan* raw() const { return &raw_.head; }
  plugin::AnswerSink& sink() { return sink_; }
  int calls = 0;
  bool asked_peak = false;

 private:
  static Recorder& of(void* self) { return *static_cast<Recorder*>(self); }

  template <class Body>
  int32_t pass(reshard_error* error, const Body& body) {
    if (++calls != manner_.refuse_at) return body(*sink_.table());
    if (error != nullptr && RESHARD_HAS(reshard_error, error, text)) {
      const std::string_view text = "the test refuses this answer";
      error->code = manner_.refusal;
      error->key_size = 0;
      error->text_size = static_cast<uint32_t>(text.size());
      std::memcpy(error->text, text.data(), text.size());
    }
    return manner_.refusal;
  }

  struct Later {
    reshard_plan head;
    unsigned char tail[64];
  };
  plugin::AnswerSink sink_;
  const Manner& manner_;
  Later raw_;
};

}  // namespace

Result Subject::decide(void* instance, const Problem& problem, const Manner& manner) const {
  const RawProblem raw(problem, manner);
  Recorder recorder(problem, manner);
  ErrorBuffer error(manner);
  Result result;
  result.status = table().decide(instance, raw.raw(), recorder.raw(), error.raw());
  error.check("decide");
  result.text = error.text(), result.key = error.key();
  result.calls = recorder.calls, result.asked_peak = recorder.asked_peak;
  recorder.sink().rethrow();
  if (!recorder.sink().refused().empty()) fail("decide " + recorder.sink().refused());
  if (result.status == RESHARD_OK) result.answers = recorder.sink().take();
  return result;
}

}  // namespace reshard::conformance
