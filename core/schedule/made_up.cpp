#include "schedule/made_up.h"

#include <algorithm>
#include <utility>

namespace reshard::schedule {

// ---- The declared pass

DeclaredPass::DeclaredPass(std::span<const DeclaredPlace> places, std::vector<bool> optional)
    : places_(places.begin(), places.end()), optional_(std::move(optional)), begins_of_(optional_.size()) {
  std::vector<std::size_t> open;
  for (std::size_t place = 0; place < places_.size(); ++place) {
    if (places_[place].begins) {
      open.push_back(runs_.size());
      runs_.push_back({.unit = places_[place].unit, .begin = place});
      begins_of_[static_cast<std::size_t>(places_[place].unit)].push_back(place);
    }
    run_at_.push_back(open.back());
    if (places_[place].begins) continue;
    runs_[open.back()].end = place;
    open.pop_back();
  }
}

std::size_t DeclaredPass::row_of(std::size_t begin) const {
  std::size_t first = begin;
  while (first > 0 && !begins(first - 1) && optional(unit(first - 1))) first = run(first - 1).begin;
  return first;
}

// A unit that is declared several times in a row need not run as often.
std::size_t DeclaredPass::repeats_end(std::size_t place) const {
  while (place > 0 && place < size() && begins(place) && !begins(place - 1) && unit(place) == unit(place - 1))
    place = run(place).end + 1;
  return place;
}

// ---- The walk

// The end of a run that the program itself has begun.
bool Walk::own_end(const DeclaredPass& pass, std::size_t place) const {
  const std::size_t begin = pass.run(place).begin;
  return !pass.begins(place) && begin < at_ &&
         std::find(passed_over_.begin(), passed_over_.end(), begin) == passed_over_.end();
}

// Makes up the optional runs before `to`. One that encloses `to` is left until its end, so that its own hooks may come
// around those inside in whatever way the program nests them.
void Walk::go(const DeclaredPass& pass, std::size_t to, std::vector<UnitHook>& missing) {
  for (; at_ < to; ++at_) {
    const DeclaredPass::Run& run = pass.run(at_);
    if (!pass.optional(run.unit)) continue;
    if (!pass.begins(at_)) {
      const auto found = std::find(passed_over_.begin(), passed_over_.end(), run.begin);
      if (found == passed_over_.end()) continue;
      passed_over_.erase(found);
      missing.push_back({Hook::before_forward, run.unit});
      missing.push_back({Hook::after_forward, run.unit});
    } else if (run.end >= to) {
      passed_over_.push_back(run.begin);
    } else {
      for (; at_ < run.end; ++at_)
        missing.push_back({pass.begins(at_) ? Hook::before_forward : Hook::after_forward, pass.unit(at_)});
      missing.push_back({Hook::after_forward, run.unit});
    }
  }
}

std::size_t Walk::begin(const DeclaredPass& pass, int unit, const DeclaredPass::Run& around,
                        std::vector<UnitHook>& missing) {
  const std::span<const std::size_t> all = pass.begins_of(unit);
  auto first = std::lower_bound(all.begin(), all.end(), around.begin);
  auto last = std::lower_bound(first, all.end(), around.end);
  if (first == last) first = all.begin(), last = all.end();
  auto place = std::lower_bound(first, last, at_);
  if (place == last) {
    std::size_t row_end = pass.repeats_end(at_);
    while (row_end < pass.size() && pass.optional(pass.unit(row_end)) && !own_end(pass, row_end)) ++row_end;
    go(pass, row_end, missing);
    place = first;
    at_ = pass.optional(unit) ? pass.row_of(*place) : *place;
    std::erase_if(passed_over_, [this](std::size_t begin) { return begin >= at_; });
  }
  go(pass, *place, missing);
  at_ = *place + 1;
  return *place;
}

std::size_t Walk::jump(const DeclaredPass& pass, int unit) {
  const std::size_t place = pass.begins_of(unit)[0];
  passed_over_.clear();
  at_ = place + 1;
  return place;
}

void Walk::end(const DeclaredPass& pass, std::size_t began, std::vector<UnitHook>& missing) {
  const std::size_t end = pass.run(began).end;
  if (at_ <= began || at_ > end) return;  // the program has gone elsewhere since
  go(pass, end, missing);
  at_ = end + 1;
}

// ---- The runs of a pass

void MadeUp::clear() {
  walk_.restart();
  again_.restart();
  open_.clear();
  runs_.clear();
  events_.clear();
  backwards_.clear();
  recording_.clear();
  ahead_ = 0;
}

bool MadeUp::forward_open(bool recompute) const {
  return std::any_of(open_.begin(), open_.end(),
                     [recompute](const Open& open) { return (open.run == kNone) == recompute; });
}

// The declared run around a hook that comes now.
DeclaredPass::Run MadeUp::around(const DeclaredPass& pass, bool recompute) const {
  const auto open = std::find_if(open_.rbegin(), open_.rend(),
                                 [recompute](const Open& each) { return (each.run == kNone) == recompute; });
  return open == open_.rend() ? DeclaredPass::Run{.end = pass.size()} : pass.run(open->place);
}

std::size_t MadeUp::record_begin(const DeclaredPass& pass, int unit, bool own) {
  runs_.push_back({.unit = unit, .optional = pass.optional(unit), .own = own, .begin = events_.size()});
  events_.push_back({runs_.size() - 1, true});
  ahead_ = events_.size();
  return runs_.size() - 1;
}

void MadeUp::record_end(std::size_t run) {
  runs_[run].end = events_.size();
  events_.push_back({run, false});
  ahead_ = events_.size();
}

void MadeUp::record(const DeclaredPass& pass, std::span<const UnitHook> made_up) {
  for (const UnitHook& each : made_up) {
    if (each.hook == Hook::before_forward) {
      recording_.push_back(record_begin(pass, each.unit, false));
    } else {
      record_end(recording_.back());
      recording_.pop_back();
    }
  }
}

void MadeUp::before_forward(const DeclaredPass& pass, int unit, bool recompute, std::vector<UnitHook>& missing) {
  if (recompute) {
    const std::size_t place =
        forward_open(true) ? again_.begin(pass, unit, around(pass, true), missing) : again_.jump(pass, unit);
    open_.push_back({unit, place, kNone});
    return;
  }
  const std::size_t place = walk_.begin(pass, unit, around(pass, false), missing);
  record(pass, missing);
  open_.push_back({unit, place, record_begin(pass, unit, true)});
}

void MadeUp::after_forward(const DeclaredPass& pass, int unit, bool recompute, std::vector<UnitHook>& missing) {
  const auto found = std::find_if(open_.rbegin(), open_.rend(), [unit](const Open& open) { return open.unit == unit; });
  if (found == open_.rend()) return;
  const Open open = *found;
  open_.erase(std::next(found).base());
  if (open.run == kNone) return again_.end(pass, open.place, missing);
  if (!recompute) walk_.end(pass, open.place, missing);
  record(pass, missing);
  record_end(open.run);
}

// Of the program's own runs of the unit whose backward has not come, the one to expect next; kNone: there is none.
std::size_t MadeUp::waiting_run(int unit) const {
  for (std::size_t at = ahead_; at > 0; --at) {
    const Event& event = events_[at - 1];
    if (!event.begins && waits(runs_[event.run], unit)) return event.run;
  }
  for (std::size_t run = runs_.size(); run > 0; --run)
    if (waits(runs_[run - 1], unit)) return run - 1;
  return kNone;
}

// The whole run, with what is inside of it.
void MadeUp::make_up_backward(std::size_t run, std::vector<UnitHook>& missing) {
  for (std::size_t at = runs_[run].end + 1; at > runs_[run].begin; --at) {
    const Event& event = events_[at - 1];
    Run& inside = runs_[event.run];
    if (!inside.optional || inside.begin < runs_[run].begin) continue;
    if (!event.begins && inside.backward == State::waiting) {
      inside.backward = State::making;
      missing.push_back({Hook::before_backward, inside.unit});
    } else if (event.begins && inside.backward == State::making) {
      inside.backward = State::made_up;
      missing.push_back({Hook::after_backward, inside.unit});
    }
  }
}

// Makes up the backwards of the optional runs that began and ended after event `to`; as in Walk::go, one that encloses
// it waits until its other end is passed.
void MadeUp::go_back(std::size_t to, std::vector<UnitHook>& missing) {
  for (; ahead_ > to; --ahead_) {
    const Event& event = events_[ahead_ - 1];
    Run& run = runs_[event.run];
    if (!run.optional || run.backward != State::waiting || run.end == kNone) continue;
    if (!event.begins && run.begin >= to) make_up_backward(event.run, missing);
    if (event.begins && run.backward == State::waiting) {
      run.backward = State::made_up;
      missing.push_back({Hook::before_backward, run.unit});
      missing.push_back({Hook::after_backward, run.unit});
    }
  }
}

void MadeUp::before_backward(const DeclaredPass& pass, int unit, std::vector<UnitHook>& missing) {
  if (!forward_open(false)) {
    walk_.go(pass, pass.size(), missing);
    record(pass, missing);
  }
  const std::size_t run = waiting_run(unit);
  if (run == kNone) return;  // the scheduler refuses it
  if (runs_[run].end != kNone && runs_[run].end < ahead_) {
    go_back(runs_[run].end + 1, missing);
    ahead_ = runs_[run].end;
  }
  runs_[run].backward = State::open;
  backwards_.push_back(run);
}

void MadeUp::after_backward(int unit, std::vector<UnitHook>& missing) {
  const auto found =
      std::find_if(backwards_.rbegin(), backwards_.rend(), [&](std::size_t run) { return runs_[run].unit == unit; });
  if (found == backwards_.rend()) return;
  const std::size_t run = *found;
  backwards_.erase(std::next(found).base());
  go_back(runs_[run].begin + 1, missing);
  ahead_ = std::min(ahead_, runs_[run].begin);
  runs_[run].backward = State::over;
}

void MadeUp::finish(const DeclaredPass& pass, bool backward, std::vector<UnitHook>& missing) {
  if (runs_.empty()) return;  // no pass has been made
  walk_.go(pass, pass.size(), missing);
  record(pass, missing);
  if (backward) go_back(0, missing);
}

bool MadeUp::made_up_backward(int unit) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [unit](const Run& run) { return run.unit == unit && run.backward == State::made_up; });
}

}  // namespace reshard::schedule
