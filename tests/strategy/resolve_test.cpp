// Who has the last word on every value, what is said about it, and the exact text of every refusal.

#include "strategy/resolve.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshard/error.h"

namespace reshard {
namespace {

Model model() {
  Model model({.name = "top", .parameters = {{"t", {8}}}});
  const Unit block = model.add({.name = "h.1", .parameters = {{"h", {8}}}});
  model.add({.name = "h.1.mlp", .parameters = {{"m", {8}}}}, block);
  model.add({.name = "loss"});
  return model;
}

// The voices on one field of one unit, weakest first; each has a value and a place of its own.
enum Voice { core, plugin, job_glob, job_later_glob, job_name, line_glob, line_name };
constexpr int kVoices = 7;
const char* const kPlaces[kVoices] = {
    "", "p", "job.toml:1:1", "job.toml:2:1", "job.toml:3:1", "--no-reshard-after-forward", "--unit"};

// A value of each field's type that differs between a voice and the next weaker ones, as far as the type has values.
void set(Decision& decision, Field field, int voice) {
  const bool odd = voice % 2 == 1;
  switch (field) {
    case Field::after_forward:
      decision.after_forward = voice % 3 == 0   ? AfterForward::free()
                               : voice % 3 == 1 ? AfterForward::keep()
                                                : AfterForward::shrink(2);
      break;
    case Field::after_backward: decision.after_backward = odd ? AfterBackward::keep : AfterBackward::free; break;
    case Field::reduce: decision.reduce = odd ? Reduce::last : Reduce::each; break;
    case Field::prefetch_forward: decision.prefetch_forward = voice == core ? 1 : voice + 1; break;
    case Field::prefetch_backward: decision.prefetch_backward = voice == core ? 1 : voice + 1; break;
  }
}

void answer(UnitAnswer& answer, Field field) {
  Decision said;
  set(said, field, plugin);
  answer.reason = "because";
  switch (field) {
    case Field::after_forward: answer.after_forward = said.after_forward; break;
    case Field::after_backward: answer.after_backward = said.after_backward; break;
    case Field::reduce: answer.reduce = said.reduce; break;
    case Field::prefetch_forward: answer.prefetch_forward = said.prefetch_forward; break;
    case Field::prefetch_backward: answer.prefetch_backward = said.prefetch_backward; break;
  }
}

UnitOverride entry(Voice voice, Field field, const std::string& match) {
  UnitOverride entry{.match = match, .where = kPlaces[voice], .command_line = voice >= line_glob};
  Decision said;
  set(said, field, voice);
  switch (field) {
    case Field::after_forward: entry.after_forward = {said.after_forward, kPlaces[voice]}; break;
    case Field::after_backward: entry.after_backward = {said.after_backward, kPlaces[voice]}; break;
    case Field::reduce: entry.reduce = {said.reduce, kPlaces[voice]}; break;
    case Field::prefetch_forward: entry.prefetch_forward = {said.prefetch_forward, kPlaces[voice]}; break;
    case Field::prefetch_backward: entry.prefetch_backward = {said.prefetch_backward, kPlaces[voice]}; break;
  }
  return entry;
}

std::string quoted(Field field, int voice) {
  Decision said;
  set(said, field, voice);
  const std::string text = value_text(said, field);
  return field == Field::prefetch_forward || field == Field::prefetch_backward ? text : '"' + text + '"';
}

// What must hold for the field of a unit when these voices speak (bit v: voice v).
void expect_winner(const UnitPlan& unit, Field field, unsigned voices) {
  int winner = kVoices - 1;
  while (winner > core && (voices >> winner & 1U) == 0) --winner;
  Decision expected;
  set(expected, field, winner);
  EXPECT_EQ(value_text(unit.decision, field), value_text(expected, field));
  const Origin& origin = unit.origin(field);
  EXPECT_EQ(origin.where, kPlaces[winner]);
  EXPECT_EQ(origin.reason, winner == plugin ? "because" : "");
  EXPECT_EQ(origin.by, winner == core       ? Origin::By::core_default
                       : winner == plugin   ? Origin::By::plugin
                       : winner < line_glob ? Origin::By::job
                                            : Origin::By::command_line);
  // The next weaker voice that is not of the same side.
  int beaten = winner >= line_glob ? job_name : winner > plugin ? plugin : core;
  while (beaten > core && (voices >> beaten & 1U) == 0) --beaten;
  const std::string who = beaten == plugin ? "plugin p" : kPlaces[beaten];
  EXPECT_EQ(origin.replaced, beaten == core ? "" : quoted(field, beaten) + " (" + who + ")");
}

struct Matches {
  int unit;
  const char *glob, *later_glob, *name, *line_glob, *line_name;
};

TEST(Resolve, EveryCombinationOfVoicesHasTheStrongestWin) {
  const Model declared = model();
  const Matches all[] = {{0, "*", "t*", "top", "*", "root"},
                         {0, "*", "roo?", "root", "*", "top"},
                         {2, "*", "h.*", "h.1.mlp", "h.1*", "h.1.mlp"}};
  for (const Matches& match : all)
    for (int f = 0; f < kFields; ++f)
      for (unsigned voices = 0; voices < 1U << kVoices; voices += 2) {
        const auto field = static_cast<Field>(f);
        SCOPED_TRACE(std::string(name(field)) + " of unit " + std::to_string(match.unit) + ", voices " +
                     std::to_string(voices));
        const auto speaks = [&](Voice voice) { return (voices >> voice & 1U) != 0; };
        Answers answers;
        answers.units.resize(4);
        if (speaks(plugin)) answer(answers.units[static_cast<std::size_t>(match.unit)], field);
        std::vector<UnitOverride> entries;  // names before globs, the command line first: order must not matter there
        if (speaks(line_name)) entries.push_back(entry(line_name, field, match.line_name));
        if (speaks(line_glob)) entries.push_back(entry(line_glob, field, match.line_glob));
        if (speaks(job_name)) entries.push_back(entry(job_name, field, match.name));
        if (speaks(job_glob)) entries.push_back(entry(job_glob, field, match.glob));
        if (speaks(job_later_glob)) entries.push_back(entry(job_later_glob, field, match.later_glob));
        const Plan plan = resolve(declared, 8, "p", answers, {.units = entries});
        expect_winner(plan.units[static_cast<std::size_t>(match.unit)], field, voices);
      }
}

// The same for what a unit is computed in, where [precision] and the program are the two weaker voices.
TEST(Resolve, EveryCombinationOfVoicesOnADtypeHasTheStrongestWin) {
  enum DtypeVoice { nobody, precision, program, glob, later_glob, named, line, line_named };
  const char* const places[] = {"core default", "job.toml:0:1", "the program",  "job.toml:1:1",
                                "job.toml:2:1", "job.toml:3:1", "--unit h.1*", "--unit h.1"};
  const auto dtype_of = [](int voice) { return voice % 2 == 1 ? Dtype::bf16 : Dtype::fp32; };
  for (unsigned voices = 0; voices < 1U << 8U; voices += 2) {
    SCOPED_TRACE("voices " + std::to_string(voices));
    const auto speaks = [&](int voice) { return (voices >> voice & 1U) != 0; };
    UnitSpec spec{.name = "h.1", .parameters = {{"h", {8}}}};
    if (speaks(program)) spec.param_dtype = dtype_of(program);
    Model declared({.name = "top", .parameters = {{"t", {8}}}});
    declared.add(spec);
    std::vector<UnitOverride> entries;
    const auto add = [&](int voice, const char* match) {
      if (!speaks(voice)) return;
      UnitOverride entry{.match = match, .where = places[voice], .command_line = voice >= line};
      entry.param_dtype = {dtype_of(voice), places[voice]};
      entries.push_back(entry);
    };
    add(line_named, "h.1"), add(line, "h.1*"), add(named, "h.1"), add(glob, "*"), add(later_glob, "h*");
    UserWord user{.units = entries};
    if (speaks(precision)) user.param_dtype = {dtype_of(precision), places[precision]};
    const Plan plan = resolve(declared, 2, "p", {}, user);
    int winner = line_named;
    while (winner > nobody && !speaks(winner)) --winner;
    EXPECT_EQ(plan.units[1].dtype, dtype_of(winner));
    EXPECT_EQ(who(plan.units[1].dtype_origin), places[winner]);
    EXPECT_EQ(plan.units[1].own_dtype, winner > precision);
    int beaten = winner >= line ? named : winner >= glob ? program : winner == program ? precision : nobody;
    while (beaten > nobody && !speaks(beaten)) --beaten;
    EXPECT_EQ(plan.units[1].dtype_origin.replaced,
              beaten == nobody ? "" : std::string("\"") + name(dtype_of(beaten)) + "\" (" + places[beaten] + ")");
    // Another unit hears only those who mean it.
    const int other = speaks(glob) ? glob : speaks(precision) ? precision : nobody;
    EXPECT_EQ(who(plan.units[0].dtype_origin), places[other]);
    EXPECT_EQ(plan.units[0].dtype, dtype_of(other));
  }
}

TEST(Resolve, EntriesWinFieldByField) {
  UnitOverride named{.match = "h.1", .where = "job.toml:1:1"};
  named.reduce = {Reduce::last, "job.toml:2:1"};
  UnitOverride all{.match = "*", .where = "job.toml:5:1"};
  all.reduce = {Reduce::each, "job.toml:6:1"};
  all.after_forward = {AfterForward::keep(), "job.toml:7:1"};
  const std::vector<UnitOverride> entries = {named, all};
  const Plan plan = resolve(model(), 4, "p", {}, {.units = entries});
  EXPECT_EQ(plan.units[1].decision.reduce, Reduce::last);
  EXPECT_EQ(plan.units[1].decision.after_forward, AfterForward::keep());
  EXPECT_EQ(plan.units[1].decision.prefetch_forward, 1);
  EXPECT_EQ(who(plan.units[1].origin(Field::reduce)), "job.toml:2:1");
  EXPECT_EQ(who(plan.units[1].origin(Field::after_forward)), "job.toml:7:1");
  EXPECT_EQ(who(plan.units[1].origin(Field::prefetch_forward)), "core default");
  EXPECT_EQ(plan.units[2].decision.reduce, Reduce::each);
}

TEST(Resolve, AmongEntriesOfOneNameTheLaterWins) {
  UnitOverride first{.match = "root", .where = "a"}, second{.match = "top", .where = "b"};
  first.prefetch_forward = {4, "a"};
  second.prefetch_forward = {5, "b"};
  EXPECT_EQ(resolve(model(), 4, "p", {}, {.units = std::vector<UnitOverride>{first, second}})
                .units[0]
                .decision.prefetch_forward,
            5);
  EXPECT_EQ(resolve(model(), 4, "p", {}, {.units = std::vector<UnitOverride>{second, first}})
                .units[0]
                .decision.prefetch_forward,
            4);
}

TEST(Resolve, AStarMatchesDotsAndTheRoot) {
  UnitOverride all{.match = "*", .where = "w"};
  all.prefetch_backward = {7, "w"};
  for (const UnitPlan& unit : resolve(model(), 4, "p", {}, {.units = std::vector<UnitOverride>{all}}).units)
    EXPECT_EQ(unit.decision.prefetch_backward, 7) << unit.name;
}

TEST(Resolve, TheWholePlansValuesFollowTheSameOrder) {
  Answers answers{.units = {}, .shard_over = 2, .all_reduce = AllReduce::last, .plan_reason = "two nodes"};
  Plan plan = resolve(model(), 8, "p", answers, {});
  EXPECT_EQ(plan.shards, 2);
  EXPECT_EQ(plan.replicas(), 4);
  EXPECT_EQ(plan.all_reduce, AllReduce::last);
  EXPECT_EQ(who(plan.shard_over_origin), "plugin p");
  EXPECT_EQ(plan.shard_over_origin.reason, "two nodes");
  plan = resolve(model(), 8, "p", answers, {.shard_over = Given<int>{4, "job.toml:9:1"}});
  EXPECT_EQ(plan.shards, 4);
  EXPECT_EQ(plan.shard_over_origin.by, Origin::By::job);
  EXPECT_EQ(plan.shard_over_origin.replaced, "2 (plugin p)");
  plan = resolve(
      model(), 8, "p", answers,
      {.all_reduce = Given<AllReduce>{AllReduce::each, "--set strategy.all_reduce", "\"last\" (job.toml:8:1)", true}});
  EXPECT_EQ(plan.all_reduce, AllReduce::each);
  EXPECT_EQ(plan.all_reduce_origin.by, Origin::By::command_line);
  EXPECT_EQ(plan.all_reduce_origin.replaced, "\"last\" (job.toml:8:1)");
  EXPECT_EQ(resolve(model(), 8, "p", {}, {}).shards, 8);
  EXPECT_EQ(resolve(model(), 8, "p", {}, {.shard_over = Given<int>{0, "j"}}).shards, 8);
}

// ---- Shrink

Plan shrunk(int ranks, int shard_over, int k) {
  UnitOverride entry{.match = "h.1", .where = "job.toml:3:1"};
  entry.after_forward = {AfterForward::shrink(k), "job.toml:4:17"};
  return resolve(model(), ranks, "p", {},
                 {.units = std::vector<UnitOverride>{entry}, .shard_over = Given<int>{shard_over, "job.toml:2:1"}});
}

TEST(Resolve, OneKeepsTheWholeGroupFreesAndDivisorsShrink) {
  for (const int shards : {1, 2, 3, 4, 6, 12})
    for (int k = 1; k <= shards; ++k) {
      if (shards % k != 0) continue;
      const AfterForward value = shrunk(12, shards, k).units[1].decision.after_forward;
      EXPECT_EQ(value, k == 1 ? AfterForward::keep() : k == shards ? AfterForward::free() : AfterForward::shrink(k));
    }
}

std::string refusal(ErrorCode code, const std::function<void()>& resolving) {
  try {
    resolving();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

TEST(Resolve, AnIntegerThatDoesNotDivideNamesItTheGroupAndTheDivisors) {
  EXPECT_EQ(refusal(ErrorCode::plan, [] { shrunk(6, 0, 4); }),
            "job.toml:4:17: after_forward = 4 of unit \"h.1\" does not divide its shard group of 6 ranks (use "
            "\"free\", \"keep\" or one "
            "of 1, 2, 3 and 6)");
  for (const int k : {0, -1, 7})
    EXPECT_EQ(refusal(ErrorCode::plan, [k] { shrunk(6, 0, k); }),
              "job.toml:4:17: after_forward = " + std::to_string(k) +
                  " of unit \"h.1\" does not divide its shard group of 6 ranks (use \"free\", \"keep\" or one of 1, 2, "
                  "3 and 6)");
  EXPECT_EQ(refusal(ErrorCode::plan, [] { shrunk(12, 4, 6); }),
            "job.toml:4:17: after_forward = 6 of unit \"h.1\" does not divide its shard group of 4 ranks (use "
            "\"free\", \"keep\" or one "
            "of 1, 2 and 4)");
  Answers answers;
  answers.units.resize(4);
  answers.units[2].after_forward = AfterForward::shrink(3);
  EXPECT_EQ(refusal(ErrorCode::plan, [&] { resolve(model(), 4, "acme_nodes", answers, {}); }),
            "plugin acme_nodes: after_forward = 3 of unit \"h.1.mlp\" does not divide its shard group of 4 ranks (use "
            "\"free\", \"keep\" "
            "or one of 1, 2 and 4)");
}

TEST(Resolve, AShardOverThatDoesNotDivideTheRanksIsRefused) {
  const auto over = [](int ranks, int shard_over) {
    return refusal(ErrorCode::plan, [=] {
      resolve(model(), ranks, "p", {}, {.shard_over = Given<int>{shard_over, "job.toml:2:14"}});
    });
  };
  EXPECT_EQ(over(4, 3),
            "job.toml:2:14: shard_over = 3 does not divide the 4 ranks (use 0 (all ranks) or one of 1, 2 and 4)");
  EXPECT_EQ(over(4, 8),
            "job.toml:2:14: shard_over = 8 does not divide the 4 ranks (use 0 (all ranks) or one of 1, 2 and 4)");
  EXPECT_EQ(over(4, -2),
            "job.toml:2:14: shard_over = -2 does not divide the 4 ranks (use 0 (all ranks) or one of 1, 2 and 4)");
  EXPECT_EQ(refusal(ErrorCode::plan,
                    [] {
                      resolve(model(), 4, "hybrid", {.units = {}, .shard_over = 3, .all_reduce = {}, .plan_reason = ""},
                              {});
                    }),
            "plugin hybrid: shard_over = 3 does not divide the 4 ranks (use 0 (all ranks) or one of 1, 2 and 4)");
}

TEST(Resolve, AnEntryThatMatchesNoUnitIsRefused) {
  const auto match = [](const std::string& text) {
    const std::vector<UnitOverride> entries = {{.match = text, .where = "job.toml:7:1"}};
    return refusal(ErrorCode::config, [&] { resolve(model(), 4, "p", {}, {.units = entries}); });
  };
  EXPECT_EQ(match("h.1"), "accepted");
  EXPECT_EQ(match("root"), "accepted");
  EXPECT_EQ(match("roo*"), "accepted");
  EXPECT_EQ(match("h.2"), "job.toml:7:1: no unit matches \"h.2\" (did you mean \"h.1\"?)");
  EXPECT_EQ(match("rott"), "job.toml:7:1: no unit matches \"rott\" (did you mean \"root\"?)");
  EXPECT_EQ(match("blocks.*"),
            "job.toml:7:1: no unit matches \"blocks.*\" (the model's units: top, h.1, h.1.mlp and loss)");
}

TEST(Resolve, NotesSayWhatAReaderWouldStumbleOver) {
  EXPECT_TRUE(resolve(model(), 4, "p", {}, {}).notes.empty());
  const Plan plan = resolve(Model({.name = "root"}), 1, "p", {}, {});
  ASSERT_EQ(plan.notes.size(), 2U);
  EXPECT_EQ(plan.notes[0], "root owns no parameters: what is decided for it changes nothing.");
  EXPECT_EQ(plan.notes[1], "A shard group of one rank holds everything: gather, free, shrink and reduce make no op.");
}

}  // namespace
}  // namespace reshard
