// The C++ wrapper from the C side, in this process: what a host of another kind would meet. Tables that are smaller or
// larger than ours, error buffers that are absent or too small, refusals that must come back as they were given.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/sdk/every_option.hpp"

RESHARD_STRATEGY(EveryOption, "every_option", "1.0.0", "answers with what it was told")

namespace {

const reshard_strategy& started() {
  reshard_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(reshard_plugin_v1.init(nullptr, &error), RESHARD_OK);
  return *reshard_plugin_v1.strategies[0];
}

// A host that counts, and refuses the n-th answer.
struct Recorder {
  int refuse_at = -1, answers = 0, lines = 0;
  std::string first_reason;

  static int32_t answer(void* context, reshard_text reason, reshard_error* error) {
    auto* self = static_cast<Recorder*>(context);
    if (self->answers++ == self->refuse_at) {
      error->text_size = 10;
      std::memcpy(error->text, "not today!", 10);
      return RESHARD_BAD_ANSWER;
    }
    if (self->first_reason.empty()) self->first_reason.assign(reason.data, reason.size);
    return RESHARD_OK;
  }

  reshard_host host() {
    reshard_host table{};
    table.struct_size = sizeof table, table.context = this;
    table.log_enabled = [](void*, uint32_t) { return int32_t{1}; };
    table.log = [](void* context, uint32_t, reshard_text) { ++static_cast<Recorder*>(context)->lines; };
    table.get_extension = [](void*, reshard_text) -> const void* { return nullptr; };
    return table;
  }

  reshard_plan plan() {
    reshard_plan table{};
    table.struct_size = sizeof table, table.context = this;
    table.set_unit = [](void* context, uint32_t, const reshard_decision*, reshard_text reason, reshard_error* error) {
      return answer(context, reason, error);
    };
    table.set_shard_over = [](void* context, uint32_t, reshard_text reason, reshard_error* error) {
      return answer(context, reason, error);
    };
    table.set_all_reduce = table.set_shard_over;
    table.clear = [](void* context, uint32_t, reshard_error* error) { return answer(context, {nullptr, 0}, error); };
    table.predicted_peak = [](void*, int64_t* bytes, reshard_error*) { return *bytes = -1, int32_t{RESHARD_OK}; };
    return table;
  }
};

int32_t decide(Recorder& recorder, reshard_error* error) {
  const reshard_strategy& strategy = started();
  const reshard_host host = recorder.host();
  const reshard_plan plan = recorder.plan();
  reshard_unit unit{};
  unit.name = {"root", 4}, unit.parent = -1, unit.flags = RESHARD_UNIT_ROOT;
  reshard_problem problem{};
  problem.struct_size = sizeof problem, problem.ranks = 1;
  problem.units = &unit, problem.unit_count = 1, problem.unit_size = sizeof unit;
  void* instance = nullptr;
  EXPECT_EQ(strategy.create(&host, nullptr, 0, &instance, error), RESHARD_OK);
  const int32_t status = strategy.decide(instance, &problem, &plan, error);
  strategy.destroy(instance);
  return status;
}

TEST(Wrapper, InitMayBeRepeatedAndTheTableStays) {
  const reshard_option* options = started().options;
  EXPECT_EQ(started().options, options);
  EXPECT_EQ(started().option_count, 9u);
}

TEST(Wrapper, ARefusalComesBackAsItWasGiven) {
  Recorder all;
  ASSERT_EQ(decide(all, nullptr), RESHARD_OK);
  EXPECT_EQ(all.lines, 1);
  ASSERT_GT(all.answers, 3);
  for (int at = 0; at < all.answers; ++at) {
    Recorder recorder;
    recorder.refuse_at = at;
    reshard_error error{};
    error.struct_size = sizeof error;
    EXPECT_EQ(decide(recorder, &error), RESHARD_BAD_ANSWER);
    EXPECT_EQ(std::string(error.text, error.text_size), "not today!");
    EXPECT_EQ(recorder.answers, at + 1) << "it went on after the refusal";
    EXPECT_EQ(decide(recorder = Recorder{at, 0, 0, {}}, nullptr), RESHARD_BAD_ANSWER);  // no buffer at all
    error = {};
    error.struct_size = 8;  // a buffer of a host that has no texts
    EXPECT_EQ(decide(recorder = Recorder{at, 0, 0, {}}, &error), RESHARD_BAD_ANSWER);
    EXPECT_EQ(error.text_size, 0u);
  }
}

// A strategy that has feedback() offers it; one that has not offers nothing.
struct Hears {
  bool feedback(const Feedback& step) {
    if (step.step() == 7) throw std::runtime_error("seven is too many");
    return step.unit(1).gathers == 5 && step.peak_bytes() == 21 && step.peak_bytes(RESHARD_ACTIVATIONS) == 6;
  }
  void decide(const Problem&, Plan&) const {}
};

TEST(Wrapper, FeedbackIsOfferedByWhoHasIt) {
  using None = detail::Functions<EveryOption, &reshard_descriptor>;
  using Some = detail::Functions<Hears, &reshard_descriptor>;
  EXPECT_EQ(None::get_extension(RESHARD_TEXT(RESHARD_FEEDBACK_ID)), nullptr);
  EXPECT_EQ(Some::get_extension(RESHARD_TEXT("reshard.feedback/2")), nullptr);
  EXPECT_EQ(Some::get_extension({nullptr, 0}), nullptr);
  const auto* table = static_cast<const reshard_feedback*>(Some::get_extension(RESHARD_TEXT(RESHARD_FEEDBACK_ID)));
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->struct_size, sizeof(reshard_feedback));
  struct Later {
    reshard_unit_summary unit;
    uint64_t added_by_a_minor;
  } units[2] = {};
  units[1].unit.gathers = 5;
  reshard_summary step{};
  step.struct_size = sizeof step, step.units = &units[0].unit, step.unit_count = 2, step.unit_size = sizeof(Later);
  for (int i = 0; i < RESHARD_MEMORY_CATEGORIES; ++i) step.peak_bytes[i] = i + 1;
  detail::Instance<Hears> instance;
  uint32_t anew = 0;
  reshard_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(table->summary(&instance, &step, &anew, &error), RESHARD_OK);
  EXPECT_EQ(anew, 1U);
  units[1].unit.gathers = 6;
  EXPECT_EQ(table->summary(&instance, &step, &anew, &error), RESHARD_OK);
  EXPECT_EQ(anew, 0U);
  step.step = 7;
  EXPECT_EQ(table->summary(&instance, &step, &anew, &error), RESHARD_FAILED);
  EXPECT_EQ(std::string(error.text, error.text_size), "seven is too many");
}

TEST(Wrapper, LongTextsAreCutAtALetter) {
  char room[4];
  EXPECT_EQ(detail::copy("abcd", room, sizeof room), 4u);
  EXPECT_EQ(detail::copy("abcü", room, sizeof room), 3u);
  EXPECT_EQ(detail::copy("äöü", room, sizeof room), 4u);
  EXPECT_EQ(detail::copy("", room, sizeof room), 0u);
}

TEST(Wrapper, GlobsMatchAsTheCoresDo) {
  for (const auto& [pattern, name, expected] : {std::tuple<const char*, const char*, bool>{"*", "", true},
                                                {"h.*", "h.12", true},
                                                {"h.?", "h.12", false},
                                                {"h.?", "h.1", true},
                                                {"*.1", "h.11.1", true},
                                                {"a*b*c", "axxbyybc", true},
                                                {"a*b*c", "axxbyyb", false},
                                                {"", "a", false},
                                                {"root", "root", true},
                                                {"Root", "root", false}})
    EXPECT_EQ(glob_match(pattern, name), expected) << pattern << " " << name;
}

// Tried star by star this one would take longer than the universe has been there.
TEST(Wrapper, ManyStarsTakeNoLonger) {
  const std::string name(4000, 'a');
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*b", name));
  EXPECT_TRUE(glob_match("*a*a*a*a*a*a*a*b", name + "b"));
}

TEST(Wrapper, TheBackwardEntersTheRootThenTheLastFirst) {
  // root { a { a.x, a.y }, b { b.x } }, declared level by level.
  const int32_t parents[] = {-1, 0, 0, 1, 1, 2};
  const char* names[] = {"root", "a", "b", "a.x", "a.y", "b.x"};
  reshard_unit units[6] = {};
  for (std::size_t i = 0; i < 6; ++i) units[i].parent = parents[i], units[i].name = {names[i], std::strlen(names[i])};
  reshard_problem problem{};
  problem.units = units, problem.unit_count = 6, problem.unit_size = sizeof units[0];
  std::string order;
  for (const Unit& unit : backward_order(Units(&problem))) order += std::string(unit.name()) + " ";
  EXPECT_EQ(order, "root b b.x a a.y a.x ");
  problem.unit_count = 0;
  EXPECT_TRUE(backward_order(Units(&problem)).empty());
}

TEST(Wrapper, TextsForReasons) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1 KiB");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(3 << 20 | 12345), "3.01 MiB");
  EXPECT_EQ(bytes_text(int64_t{80} << 30), "80 GiB");
  EXPECT_EQ(bytes_text(INT64_MAX), "8 EiB");
  EXPECT_EQ(seconds_text(1.5), "1.5 s");
  EXPECT_EQ(seconds_text(0.0022501), "2.25 ms");
  EXPECT_EQ(seconds_text(0.00098), "980 µs");
  EXPECT_EQ(seconds_text(0), "0 µs");
  EXPECT_EQ(divisors_text(1), "1");
  EXPECT_EQ(divisors_text(7), "1 and 7");
  EXPECT_EQ(divisors_text(12), "1, 2, 3, 4, 6 and 12");
}

}  // namespace
