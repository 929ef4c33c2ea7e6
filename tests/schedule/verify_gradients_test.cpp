// The verifier's rules about gradients: what is reduced, added, divided and dropped, each rejected where it is broken.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/schedule/op_script.h"

namespace reshard::schedule::script {
namespace {

// Two shards in two replicas, which exchange each of two micro-batches; the unit is whole throughout. Hooks 5 and 9
// reduce.
Script exchanged() {
  Script s = plain();
  s[3].ops = {simple(K::forward_end)};
  s[4].ops = {allocate(0, B::gradient, 512), simple(K::backward_begin)};
  s[5].ops = {simple(K::backward_end),
              allocate(0, B::gradient_shard, 256),
              reduce(0, 2, false, false, false),
              all_reduce(0, 2, false, false, false),
              simple(K::wait_reduce),
              release(0, B::gradient, 512)};
  const Script again = {{Hook::begin_micro_batch, -1, {}},
                        {Hook::before_forward, 0, {simple(K::forward_begin)}},
                        {Hook::after_forward, 0, {simple(K::forward_end)}},
                        {Hook::before_backward, 0, {allocate(0, B::gradient, 512), simple(K::backward_begin)}},
                        {Hook::after_backward,
                         0,
                         {simple(K::backward_end), free_op(0, 512), allocate(0, B::reduce_scratch, 256),
                          reduce(0, 2, false, true, false), all_reduce(0, 2, true, true, true), simple(K::wait_reduce),
                          release(0, B::gradient, 512), release(0, B::reduce_scratch, 256)}}};
  s.insert(s.begin() + 6, again.begin(), again.end());
  return s;
}

// A shard group of one: the gradient is the shard. Hook 5 reduces.
Script alone() {
  Script s = plain();
  s[2].ops = {simple(K::forward_begin)};
  s[3].ops = {simple(K::forward_end)};
  s[4].ops = {allocate(0, B::gradient, 256), simple(K::backward_begin)};
  s[5].ops = {simple(K::backward_end), make(K::adopt, 0, 256), simple(K::scale)};
  return s;
}

// The same with two replicas.
Script replicated() {
  Script s = alone();
  s[5].ops = {simple(K::backward_end), all_reduce(0, 2, false, false, true), simple(K::wait_reduce),
              make(K::adopt, 0, 256)};
  return s;
}

TEST(Verifier, EachGradientIsReducedOnceAndDividedOnce) {
  const auto back = [](int op, const char* kind, const char* rule) {
    return "op " + std::to_string(op) + " \"" + kind + "\", unit 0, hook \"after backward\": " + rule;
  };
  expect_all(
      step(2, 1, 1, 1), plain(),
      {{[](Script& s) { drop(s, 4, 3); },
        "op 9 \"backward begin\", unit 0, hook \"before backward\": a backward finds its gradient memory"},
       {[](Script& s) { drop(s, 5, 3); }, back(14, "wait reduce", "a reduce is waited for once, after its launch")},
       {[](Script& s) { drop(s, 5, 4); }, back(15, "release", "gradient memory stays until its reduce is waited for")},
       {[](Script& s) {
          drop(s, 5, 5);
          drop(s, 5, 4);
        },
        "after op 15, unit 0, hook \"after backward\": without overlap a reduce is waited for before its hook ends"},
       {[](Script& s) {
          s[5].ops = {simple(K::backward_end), free_op(0, 512), release(0, B::gradient, 512)};
        },
        back(13, "release", "a gradient is reduced before it is released")},
       {[](Script& s) { drop(s, 5, 5); },
        "after op 16, unit 0, hook \"reduce\": gradients are in the shard before the update"},
       {[](Script& s) { s[5].ops[3].divide = false; },
        "after op 17, unit 0, hook \"reduce\": the divisor is applied once"},
       {[](Script& s) { put(s, 5, 5, simple(K::scale)); }, back(16, "scale", "the divisor is applied once")},
       {[](Script& s) { put(s, 5, 4, simple(K::scale)); },
        back(15, "scale", "a sum is scaled after its reduce is waited for")},
       {[](Script& s) { s[5].ops[3].add = true; }, back(14, "reduce", "an addition finds an earlier sum")},
       {[](Script& s) { s[5].ops[3].ranks = 4; }, back(14, "reduce", "a reduce is over the shard group")},
       {[](Script& s) { s[5].ops[3].bytes = 512; }, back(14, "reduce", "a reduce receives (n-1)/n of the unit")},
       {[](Script& s) { s[5].ops[3].into_scratch = true; }, back(14, "reduce", "a reduce finds memory for its result")},
       {[](Script& s) { put(s, 5, 5, s[5].ops[3]); }, back(16, "reduce", "a gradient is reduced once")},
       {[](Script& s) {
          std::swap(s[5].ops[0], s[5].ops[2]);
          std::swap(s[5].ops[1], s[5].ops[3]);
        },
        back(12, "reduce", "a reduce finds a gradient")},
       {[](Script& s) { put(s, 5, 6, release(0, B::gradient_shard, 256)); },
        back(17, "release", "a gradient shard stays until the update")},
       {[](Script& s) { s[2].ops[1].bytes = 512; },
        "op 1 \"gather\", unit 0, hook \"before forward\": a gather receives (n-1)/n of the unit"},
       {[](Script& s) { put(s, 6, 0, make(K::update, -1)); },
        "op 17 \"update\", hook \"reduce\": an update happens at the program's own hook"},
       {[](Script& s) { s[5].ops.resize(2); },
        "after op 13, unit 0, hook \"reduce\": gradients are in the shard before the update"}});
}

TEST(Verifier, SumsOverReplicasAddUpEachMicroBatchOnce) {
  const auto back = [](int op, const char* kind, const char* rule) {
    return "op " + std::to_string(op) + " \"" + kind + "\", unit 0, hook \"after backward\": " + rule;
  };
  Step two = step(2, 2, 2, 1, AfterForward::keep());
  two.units[0].decision.after_backward = AfterBackward::keep;
  expect_all(
      two, exchanged(),
      {{[](Script& s) { drop(s, 10, 4); },
        back(23, "release", "a reduced gradient is added before its memory is released")},
       {[](Script& s) {
          s[10].ops[3].into_scratch = false;
          s[10].ops[3].add = true;
          drop(s, 10, 2);
          drop(s, 10, 6);
        },
        back(19, "reduce", "sums that are added are over the same ranks")},
       {[](Script& s) { s[10].ops[4].into_scratch = false; },
        back(21, "all-reduce", "replicas exchange each sum once")},
       {[](Script& s) { s[10].ops[4].add = false; },
        back(21, "all-reduce", "an all-reduce adds to the sum that is there, in place otherwise")},
       {[](Script& s) { s[10].ops[4].ranks = 4; }, back(21, "all-reduce", "an all-reduce is over the replicas")},
       {[](Script& s) { s[10].ops[4].bytes = 1; },
        back(21, "all-reduce", "an all-reduce receives 2(r-1)/r of the shard")},
       {[](Script& s) { put(s, 10, 5, s[10].ops[4]); }, back(22, "all-reduce", "a gradient is reduced once")},
       {[](Script& s) { s[5].ops[3].divide = true; },
        back(21, "all-reduce", "the divisor is applied after the last addition")},
       {[](Script& s) { s[10].ops[3].divide = true; },
        back(21, "all-reduce", "the divisor is applied after the last addition")},
       {[](Script& s) { s[10].ops[3].add = true; }, back(20, "reduce", "a reduce into the scratch adds to nothing")},
       {[](Script& s) {
          drop(s, 5, 3);
          s[10].ops[4].divide = true;
        },
        back(20, "all-reduce", "sums that are added are over the same ranks")},
       {[](Script& s) { put(s, 5, 2, all_reduce(0, 2, false, false, false)); },
        back(9, "all-reduce", "an all-reduce finds its input")},
       {[](Script& s) { put(s, 10, 3, all_reduce(0, 2, true, true, false)); },
        back(20, "all-reduce", "an all-reduce finds its input")}});
  Script once = plain();  // summed over the shard group only
  EXPECT_EQ(verdict(step(2, 2, 1, 1), once),
            "after op 17, unit 0, hook \"reduce\": a gradient is summed over all ranks");
}

TEST(Verifier, InAShardGroupOfOneTheGradientBecomesTheShard) {
  expect_all(
      step(1, 1, 1, 1), alone(),
      {{[](Script& s) { drop(s, 5, 2); }, "after op 6, unit 0, hook \"reduce\": the divisor is applied once"},
       {[](Script& s) { drop(s, 5, 1); }, "op 5 \"scale\", unit 0, hook \"after backward\": a scale finds a sum"},
       {[](Script& s) { std::swap(s[5].ops[0], s[5].ops[1]); },
        "op 4 \"adopt\", unit 0, hook \"after backward\": an adopt finds a gradient"},
       {[](Script& s) { s[5].ops[1].bytes = 512; },
        "op 5 \"adopt\", unit 0, hook \"after backward\": an adopt has the bytes of the shard"},
       {[](Script& s) { put(s, 5, 1, allocate(0, B::gradient_shard, 256)); },
        "op 6 \"adopt\", unit 0, hook \"after backward\": a sum is not overwritten"},
       {[](Script& s) { s[5].ops[1] = reduce(0, 1, false, false, true); },
        "op 5 \"reduce\", unit 0, hook \"after backward\": a reduce is over the shard group"}});
  expect_all(step(1, 2, 1, 1), replicated(),
             {{[](Script& s) { std::swap(s[5].ops[2], s[5].ops[3]); },
               "op 6 \"adopt\", unit 0, hook \"after backward\": gradient memory stays until its reduce is waited for"},
              {[](Script& s) { s[5].ops[1] = simple(K::forward_end); },
               "op 5 \"forward end\", unit 0, hook \"after backward\": computation begins and ends at the program's "
               "own hooks"},
              {[](Script& s) { std::swap(s[5].ops[0], s[5].ops[1]); },
               "op 4 \"all-reduce\", unit 0, hook \"after backward\": a gradient is complete when it is reduced"},
              {[](Script& s) { put(s, 5, 3, all_reduce(0, 2, false, false, false)); },
               "op 7 \"all-reduce\", unit 0, hook \"after backward\": the divisor is applied after the last addition"},
              {[](Script& s) {
                 s[5].ops[1].divide = false;
                 put(s, 5, 3, all_reduce(0, 2, false, false, true));
               },
               "op 7 \"all-reduce\", unit 0, hook \"after backward\": replicas exchange each sum once"}});
  EXPECT_EQ(verdict(step(2, 1, 1, 1), {{Hook::begin_step, -1, {make(K::adopt, 0, 256)}}}),
            "op 0 \"adopt\", unit 0, hook \"begin step\": only in a shard group of one is the gradient the shard");
}

TEST(Verifier, OneReduceIsInFlightAndNothingIsComputedIntoItsMemory) {
  Step overlapped = step(2, 1, 2, 2);
  overlapped.overlap = true;
  Script s;
  const auto whole = [](int u, K begin) -> std::vector<Op> {
    return {allocate(u, B::whole, 512), gather(u, 2), simple(K::wait_gather, u), simple(begin, u)};
  };
  s.push_back({Hook::begin_step, -1, {}});
  s.push_back({Hook::begin_micro_batch, -1, {}});
  for (const int u : {0, 1}) {
    std::vector<Op> before = whole(u, K::backward_begin);
    before.insert(before.begin() + 3, allocate(u, B::gradient, 512));
    s.push_back({Hook::before_backward, u, before});
    s.push_back({Hook::after_backward,
                 u,
                 {simple(K::backward_end, u), free_op(u, 512), allocate(u, B::gradient_shard, 256),
                  reduce(u, 2, false, false, false)}});
  }
  EXPECT_EQ(
      verdict(overlapped, s),
      "op 17 \"reduce\", unit 1, hook \"after backward\": a reduce is waited for before another unit's is launched");
  Script waited = s;
  put(waited, 5, 0, simple(K::wait_reduce, 0));
  EXPECT_EQ(verdict(overlapped, waited), "");
  Script again = s;
  again.resize(4);
  again.push_back({Hook::before_backward, 0, whole(0, K::backward_begin)});
  EXPECT_EQ(verdict(overlapped, again),
            "op 12 \"backward begin\", unit 0, hook \"before backward\": a backward does not add into a gradient that "
            "is reduced already");
  waited.push_back({Hook::reduce, -1, {}});
  EXPECT_EQ(verdict(overlapped, waited),
            "after op 19, unit 0, hook \"reduce\": every reduce is waited for before the update");
}

}  // namespace
}  // namespace reshard::schedule::script
