#pragma once

// What a rank makes up for: runs of units that may be unused which the declared pass has and this rank's program leaves
// out. Pure integers, as the scheduler is; one MadeUp per micro-batch or forward-only pass, used by its scheduler
// alone.
//
//   declared    root( a( )a  e( )e   f( )f  b( )b )root      e and f may be unused
//   program     root( a( )a          f( )f  b( )b )root      this rank leaves e out
//   runs        root( a( )a [e( )e]  f( )f  b( )b )root      e is made up when f, a later place, comes
//   backward    the runs from right to left; this rank's program: )root )b b( )f f( )a …; before )a comes [)e e(]
//
// Forward. The walk goes along the declared places. A hook of the program's takes it to that unit's next place; every
// optional run that lies between is made up. Places are those inside of the run that encloses the hook: a unit that runs
// once more has not come to the next run of its parent. A unit that has no place ahead (once more, or another order)
// first has the optional runs up to the next ordinary place made up, then the walk goes back: to the unit's first place,
// or, for an optional unit, to the first of the optional ones that are declared in a row with it. A recompute walks a line of its
// own, inside the unit that is recomputed: before and after it nothing is made up.
//
// Backward. What was declared plays no part: it is the runs of this very pass, made-up ones included, in reverse. So
// what the program runs twice or in another order comes back as it came.
//
// A rank sees its own hooks only and must decide before it goes on, so ranks agree where the ordinary units' order and
// the declaration say alone what comes: reshard/model.h, may_be_unused, says what that asks of a program.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/hook.h"

namespace reshard::schedule {

// A place in the declared forward pass: a unit's forward begins or ends.
struct DeclaredPlace {
  int unit = 0;
  bool begins = true;
  bool operator==(const DeclaredPlace&) const = default;
};

struct UnitHook {
  Hook hook = Hook::before_forward;
  int unit = 0;
};

// The declared places, and what is known of them ahead.
class DeclaredPass {
 public:
  struct Run {
    int unit = 0;
    std::size_t begin = 0, end = 0;  // places
  };

  DeclaredPass() = default;
  // `optional`: by unit, whether it may be unused. What lies inside of an optional unit is optional.
  DeclaredPass(std::span<const DeclaredPlace> places, std::vector<bool> optional);

  std::size_t size() const { return places_.size(); }
  bool begins(std::size_t place) const { return places_[place].begins; }
  int unit(std::size_t place) const { return places_[place].unit; }
  bool optional(int unit) const { return optional_[static_cast<std::size_t>(unit)]; }
  const Run& run(std::size_t place) const { return runs_[run_at_[place]]; }
  std::span<const std::size_t> begins_of(int unit) const { return begins_of_[static_cast<std::size_t>(unit)]; }
  std::size_t repeats_end(std::size_t place) const;  // past further runs of the unit whose run ends before `place`
  std::size_t row_of(std::size_t begin) const;  // the first place of the optional runs declared in a row with this one

 private:
  std::vector<DeclaredPlace> places_;
  std::vector<bool> optional_;
  std::vector<Run> runs_;
  std::vector<std::size_t> run_at_;                  // by place
  std::vector<std::vector<std::size_t>> begins_of_;  // by unit: its places, in order
};

// A position in the declared pass. `missing` receives, in order, the hooks that are made up.
class Walk {
 public:
  void restart() { at_ = 0, passed_over_.clear(); }
  // Returns the place: one inside of the run `around`, where the unit has any there.
  std::size_t begin(const DeclaredPass& pass, int unit, const DeclaredPass::Run& around,
                    std::vector<UnitHook>& missing);
  std::size_t jump(const DeclaredPass& pass, int unit);                                   // to it, making up nothing
  void end(const DeclaredPass& pass, std::size_t began, std::vector<UnitHook>& missing);
  void go(const DeclaredPass& pass, std::size_t to, std::vector<UnitHook>& missing);

 private:
  bool own_end(const DeclaredPass& pass, std::size_t place) const;

  std::size_t at_ = 0;
  std::vector<std::size_t>
      passed_over_;  // begins of optional runs inside of which the program went without their hooks
};

class MadeUp {
 public:
  void clear();

  // The hooks to run before the program's own one, in order.
  void before_forward(const DeclaredPass& pass, int unit, bool recompute, std::vector<UnitHook>& missing);
  void after_forward(const DeclaredPass& pass, int unit, bool recompute, std::vector<UnitHook>& missing);
  void before_backward(const DeclaredPass& pass, int unit, std::vector<UnitHook>& missing);
  void after_backward(int unit, std::vector<UnitHook>& missing);
  // No hook of this pass will come any more. `backward`: it has a backward.
  void finish(const DeclaredPass& pass, bool backward, std::vector<UnitHook>& missing);

  bool made_up_backward(int unit) const;

 private:
  enum class State : uint8_t { waiting, open, over, making, made_up };  // of its backward

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // A run of this pass.
  struct Run {
    int unit = 0;
    bool optional = false, own = true;   // own: the program's, not made up
    std::size_t begin = 0, end = kNone;  // events
    State backward = State::waiting;
  };
  struct Event {
    std::size_t run = 0;
    bool begins = true;
  };
  // A forward of the program's own that has begun.
  struct Open {
    int unit = 0;
    std::size_t place = 0;  // in the declared pass
    std::size_t run = 0;    // kNone: a recompute
  };

  static bool waits(const Run& run, int unit) { return run.own && run.unit == unit && run.backward == State::waiting; }
  bool forward_open(bool recompute) const;
  DeclaredPass::Run around(const DeclaredPass& pass, bool recompute) const;
  std::size_t record_begin(const DeclaredPass& pass, int unit, bool own);
  void record_end(std::size_t run);
  void record(const DeclaredPass& pass, std::span<const UnitHook> made_up);
  std::size_t waiting_run(int unit) const;
  void go_back(std::size_t to, std::vector<UnitHook>& missing);
  void make_up_backward(std::size_t run, std::vector<UnitHook>& missing);

  Walk walk_, again_;  // the pass; a recompute
  std::vector<Open> open_;
  std::vector<Run> runs_;
  std::vector<Event> events_;           // forwards begin and end, in order
  std::size_t ahead_ = 0;               // events that backward has not passed
  std::vector<std::size_t> backwards_;  // runs whose own backward is open
  std::vector<std::size_t> recording_;  // made-up runs that have begun
};

}  // namespace reshard::schedule
