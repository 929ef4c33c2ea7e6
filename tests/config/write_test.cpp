// print_job: what it prints reads back to the same job, and printing that gives the same text. Jobs are drawn at random
// from a fixed seed, every field included; strings hold whatever UTF-8 may.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "reshard/text.h"
#include "tests/config/program.h"

namespace reshard {
namespace {

using test::Network;
using test::Read;

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool truth() { return integer(0, 1) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[integer(0, static_cast<int64_t>(list.size()) - 1)];
  }
  double real(double low, double high) {
    return one_of({low, std::uniform_real_distribution<double>(low, high)(random_), low + (high - low) * 1e-9});
  }
  double any_real() {
    double value;
    do {
      const uint64_t bits = random_();
      std::memcpy(&value, &bits, sizeof value);
    } while (!std::isfinite(value));
    return value;
  }
  std::string text() {
    std::string out;
    for (int64_t n = integer(0, 6); n > 0; --n)
      out += one_of<const char*>(
          {"a", "\"", "\\", "\n", "\r", "\t", "\x01", "\x7f", "é", "€", "#", " ", "'''", "=", "]", "\\u"});
    return out;
  }
  std::string word() { return one_of<const char*>({"deep", "a b", "x", "acme_1", "", "é.k"}); }
  OptionValue option(int depth) {
    OptionValue out;
    switch (integer(0, depth > 0 ? 4 : 3)) {
      case 0: out.value = truth(); break;
      case 1: out.value = integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()); break;
      case 2: out.value = any_real(); break;
      case 3: out.value = text(); break;
      default: {
        OptionValue::List list;
        for (int64_t n = integer(0, 3); n > 0; --n) list.push_back(option(depth - 1));
        out.value = std::move(list);
      }
    }
    return out;
  }
  OptionValues options() {
    OptionValues out;
    for (int64_t n = integer(0, 3); n > 0; --n) out[word()] = option(2);
    return out;
  }
  UnitOverride unit() {
    UnitOverride entry;
    entry.match = one_of<const char*>({"h.*", "root", "*", "h.3", "h.?", "od\"d"});
    if (truth())
      entry.after_forward = {one_of({AfterForward::free(), AfterForward::keep(), AfterForward::shrink(4)}), ""};
    if (truth()) entry.after_backward = {one_of({AfterBackward::free, AfterBackward::keep}), ""};
    if (truth()) entry.reduce = {one_of({Reduce::each, Reduce::last}), ""};
    if (truth()) entry.prefetch_forward = {static_cast<int>(integer(0, 8)), ""};
    if (truth()) entry.prefetch_backward = {static_cast<int>(integer(0, 8)), ""};
    UnitOverride idle;  // which no file may have
    idle.match = entry.match;
    if (entry == idle || truth()) entry.param_dtype = {truth() ? Dtype::bf16 : Dtype::fp32, ""};
    return entry;
  }

 private:
  std::mt19937_64 random_;
};

void draw(Draw& draw, Job& job, Network& network) {
  job.strategy.plugin = draw.one_of<const char*>({"", "acme", "/opt/own.so"});
  if (draw.truth()) job.strategy.shard_over = static_cast<int>(draw.integer(0, 8));
  if (draw.truth()) job.strategy.all_reduce = draw.one_of({AllReduce::each, AllReduce::last});
  job.strategy.backward_order = draw.one_of<const char*>({"micro_batch", "since_backward", "since_step"});
  for (int64_t n = draw.integer(0, 2); n > 0; --n) job.strategy.options[draw.word()] = draw.options();
  for (int64_t n = draw.integer(0, 3); n > 0; --n) job.strategy.units.push_back(draw.unit());
  for (int64_t n = draw.integer(0, 2); n > 0; --n)
    job.strategy.variants.push_back({"v-" + std::to_string(n) + ".x", "acme", draw.options(), ""});
  for (int64_t n = draw.integer(0, 2), step = 0; n > 0; --n)
    job.strategy.switches.push_back({step += draw.integer(1, 9), "acme", draw.options(), ""});
  job.mesh = {static_cast<int>(draw.integer(0, 9)),
              draw.one_of<const char*>({"cpu", "cuda"}),
              draw.one_of<const char*>({"threads", "mpi", "nccl", "shared_device"}),
              static_cast<int>(draw.integer(0, 9)),
              draw.truth(),
              draw.real(1e-9, 1e6),
              draw.one_of<const char*>({"tree", "native"})};
  job.memory.budget = draw.one_of({draw.integer(0, 5000), draw.integer(0, 5000) << draw.integer(0, 50),
                                   draw.integer(0, std::numeric_limits<int64_t>::max())});
  job.train = {draw.integer(0, 1'000'000'000), draw.integer(1, 1'000'000'000),
               static_cast<int>(draw.integer(1, 1'000'000)),
               static_cast<uint64_t>(draw.integer(0, std::numeric_limits<int64_t>::max())), draw.integer(0, 10),
               draw.one_of<const char*>({"ranks", "tokens", "none"}), draw.integer(0, 3)};
  job.precision = {draw.one_of<const char*>({"fp32", "bf16"}), draw.one_of<const char*>({"fp32", "bf16"})};
  job.optimizer = {draw.one_of<const char*>({"adamw", "sgd", "program"}),
                   draw.real(0, 1e3),
                   {draw.real(0, 0.999), draw.real(0, 0.5)},
                   draw.real(1e-300, 1),
                   draw.real(0, 0.9),
                   draw.real(0, 1),
                   draw.real(0, 1e9),
                   draw.one_of<const char*>({"l2", "inf"}),
                   {draw.one_of<const char*>({"constant", "cosine"}), draw.integer(0, 99), draw.real(0, 1)},
                   {}};
  for (int64_t n = draw.integer(0, 2); n > 0; --n) {
    job.optimizer.groups.push_back({"*." + std::to_string(n), {}, {}, ""});
    if (draw.truth()) job.optimizer.groups.back().lr_scale = draw.real(0, 10);
    if (!job.optimizer.groups.back().lr_scale || draw.truth())
      job.optimizer.groups.back().weight_decay = draw.real(0, 1);
  }
  for (int64_t n = draw.integer(0, 2); n > 0; --n) job.plugins.path.push_back("/opt/" + std::to_string(n) + "é\"");
  network.layers = static_cast<int>(draw.integer(1, 1000));
  network.units = draw.one_of<const char*>({"root", "split"});
  network.tied = draw.truth();
  network.path = "/p" + draw.text();
  network.cache = draw.integer(0, 1) << draw.integer(0, 60);
  network.seed = static_cast<uint64_t>(draw.integer(0, std::numeric_limits<int64_t>::max()));
  network.scales.assign(static_cast<std::size_t>(draw.integer(0, 3)), std::abs(draw.any_real()));
  network.names.assign(static_cast<std::size_t>(draw.integer(0, 3)), draw.text());
  network.range = {draw.any_real(), draw.any_real()};
  network.rate = draw.real(1e-12, 0.5);
  network.tokens = draw.integer(-5, std::numeric_limits<int64_t>::max());
}

bool same(const OptionValue& a, const OptionValue& b) {
  const auto* left = std::get_if<OptionValue::List>(&a.value);
  const auto* right = std::get_if<OptionValue::List>(&b.value);
  if (left != nullptr && right != nullptr)
    return std::equal(left->begin(), left->end(), right->begin(), right->end(), same);
  if (left != nullptr || right != nullptr || a.value.index() != b.value.index()) return false;
  switch (a.value.index()) {
    case 0: return std::get<bool>(a.value) == std::get<bool>(b.value);
    case 1: return std::get<int64_t>(a.value) == std::get<int64_t>(b.value);
    case 2: return std::get<double>(a.value) == std::get<double>(b.value);
    default: return std::get<std::string>(a.value) == std::get<std::string>(b.value);
  }
}

bool same(const OptionValues& a, const OptionValues& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

bool same(const Job::Strategy& a, const Job::Strategy& b) {
  const auto variants = [](const Job::Variant& x, const Job::Variant& y) {
    return x.name == y.name && x.plugin == y.plugin && same(x.options, y.options);
  };
  const auto switches = [](const Job::Switch& x, const Job::Switch& y) {
    return x.at_step == y.at_step && x.plugin == y.plugin && same(x.options, y.options);
  };
  const auto options = [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); };
  return a.plugin == b.plugin && a.shard_over == b.shard_over && a.all_reduce == b.all_reduce && a.units == b.units &&
         std::equal(a.options.begin(), a.options.end(), b.options.begin(), b.options.end(), options) &&
         std::equal(a.variants.begin(), a.variants.end(), b.variants.begin(), b.variants.end(), variants) &&
         std::equal(a.switches.begin(), a.switches.end(), b.switches.begin(), b.switches.end(), switches);
}

TEST(Write, ReadsBackToTheSameJob) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Draw random(seed);
    Job job;
    Network network;
    draw(random, job, network);
    const std::string text = print_job(job, test::network_tables(network));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const Read back(text);
    ASSERT_TRUE(same(back.job.strategy, job.strategy));
    ASSERT_EQ(back.job.mesh, job.mesh);
    ASSERT_EQ(back.job.memory, job.memory);
    ASSERT_EQ(back.job.train, job.train);
    ASSERT_EQ(back.job.optimizer, job.optimizer);
    ASSERT_EQ(back.job.plugins, job.plugins);
    ASSERT_EQ(back.network, network);
    ASSERT_EQ(print_job(back.job, back.program), text);
  }
}

// The value that each field of a unit takes when a name beats a glob, the later entry an earlier one, and the command
// line both: the rule, written down a second time and in the shortest way.
template <class T>
std::optional<T> winner(const std::vector<UnitOverride>& units, const std::string& unit,
                        std::optional<Given<T>> UnitOverride::*field) {
  std::optional<T> value;
  int best = -1;
  for (const UnitOverride& entry : units) {
    const bool glob = base::is_glob(entry.match);
    if (!(entry.*field) || !(glob ? base::glob_match(entry.match, unit) : entry.match == unit)) continue;
    const int strength = (entry.command_line ? 2 : 0) + (glob ? 0 : 1);
    if (strength >= best) best = strength, value = (entry.*field)->value;
  }
  return value;
}

TEST(Write, CommandLineEntriesMeanTheSameInTheFile) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Draw random(seed);
    Job job;
    Network network;
    for (int64_t n = random.integer(0, 4); n > 0; --n) job.strategy.units.push_back(random.unit());
    for (int64_t n = random.integer(1, 4); n > 0; --n) {
      job.strategy.units.push_back(random.unit());
      job.strategy.units.back().command_line = true;
    }
    const std::string text = print_job(job, test::network_tables(network));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const Read back(text);
    for (const char* unit : {"root", "h.3", "h.4", "h.33", "od\"d", "x"}) {
      const auto agree = [&](auto field) {
        return winner(job.strategy.units, unit, field) == winner(back.job.strategy.units, unit, field);
      };
      ASSERT_TRUE(agree(&UnitOverride::after_forward)) << unit;
      ASSERT_TRUE(agree(&UnitOverride::after_backward)) << unit;
      ASSERT_TRUE(agree(&UnitOverride::reduce)) << unit;
      ASSERT_TRUE(agree(&UnitOverride::prefetch_forward)) << unit;
      ASSERT_TRUE(agree(&UnitOverride::prefetch_backward)) << unit;
      ASSERT_TRUE(agree(&UnitOverride::param_dtype)) << unit;
    }
    ASSERT_EQ(print_job(back.job, back.program), text);
  }
}

TEST(Write, EveryKeyHasItsComment) {
  Job job;
  const std::string text = print_job(job);
  EXPECT_NE(text.find("\n# plugin         = \"\"           # a name that `plugins list` shows, or the path of a .so\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# shard_over     = 0 "), std::string::npos);
  EXPECT_NE(text.find("# all_reduce     = \"each\"       # when replicas"), std::string::npos);
  EXPECT_NE(text.find("\n# The run.\n[train]\nsteps              = 200      # optimizer steps\n"), std::string::npos);
  for (const std::string line : {"[optimizer.schedule]", "[plugins]", "[memory]", "[mesh]"})
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line;
}

TEST(Write, ShowsOverrides) {
  Read read("[train]\nsteps = 5\n");
  config::Overrides overrides;
  overrides.steps = 6;
  overrides.set = {"model.layers=8"};
  overrides.units = {"h.*:reduce=last"};
  read.apply(overrides);
  const std::string text = print_job(read.job, read.program);
  EXPECT_NE(text.find("\nsteps              = 6 "), std::string::npos) << text;
  EXPECT_NE(text.find("\n# The network.\n[model]\nlayers = 8 "), std::string::npos) << text;
  EXPECT_NE(text.find("\n[[strategy.unit]]\nmatch = \"h.*\"\nreduce = \"last\"\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace reshard
