// Op streams written by hand: the legal ones are accepted, and every rule of the verifier about copies and memory
// rejects a stream that breaks it, naming op, unit, hook and rule.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/schedule/op_script.h"

namespace reshard::schedule::script {
namespace {

// Four shards, shrunk to groups of two after forward.
Script shrunk() {
  Script s = plain();
  s[2].ops = {allocate(0, B::whole, 1024), gather(0, 4), simple(K::wait_gather), simple(K::forward_begin)};
  s[3].ops = {simple(K::forward_end), allocate(0, B::partial, 512), shrink(0, 1024, 2)};
  s[4].ops = {allocate(0, B::whole, 1024), gather_partial(0, 1024, 2),     simple(K::wait_gather),
              release(0, B::partial, 512), allocate(0, B::gradient, 1024), simple(K::backward_begin)};
  s[5].ops = {simple(K::backward_end),          free_op(0, 1024),       allocate(0, B::gradient_shard, 256),
              reduce(0, 4, false, false, true), simple(K::wait_reduce), release(0, B::gradient, 1024)};
  return s;
}

TEST(Verifier, ACopyIsWholeWhereItIsComputedOn) {
  expect_all(step(2, 1, 1, 1), plain(),
             {{[](Script& s) { drop(s, 2, 2); },
               "op 2 \"forward begin\", unit 0, hook \"before forward\": a unit that is computed on is whole, its "
               "gather waited for"},
              {[](Script& s) { s[2].ops = {simple(K::forward_begin)}; },
               "op 0 \"forward begin\", unit 0, hook \"before forward\": a unit that is computed on is whole, its "
               "gather waited for"},
              {[](Script& s) { drop(s, 2, 1); },
               "op 1 \"wait gather\", unit 0, hook \"before forward\": a gather is waited for once, after its launch"},
              {[](Script& s) { drop(s, 2, 0); },
               "op 0 \"gather\", unit 0, hook \"before forward\": a gather finds fresh whole memory"},
              {[](Script& s) { put(s, 2, 3, free_op(0, 512)); },
               "op 4 \"forward begin\", unit 0, hook \"before forward\": a unit that is computed on is whole, its "
               "gather waited for"},
              {[](Script& s) { put(s, 2, 4, free_op(0, 512)); },
               "op 4 \"free\", unit 0, hook \"before forward\": a unit in use is not freed"},
              {[](Script& s) { std::swap(s[3].ops[0], s[3].ops[1]); },
               "op 4 \"free\", unit 0, hook \"after forward\": a unit in use is not freed"},
              {[](Script& s) { put(s, 2, 2, free_op(0, 512)); },
               "op 2 \"free\", unit 0, hook \"before forward\": a unit is not freed while its gather is in flight"},
              {[](Script& s) { put(s, 3, 2, free_op(0, 512)); },
               "op 6 \"free\", unit 0, hook \"after forward\": a unit that is freed is whole"},
              {[](Script& s) { drop(s, 2, 3); },
               "after op 3, unit 0, hook \"before forward\": the hook's computation is marked exactly once"},
              {[](Script& s) { put(s, 2, 4, simple(K::forward_begin)); },
               "after op 5, unit 0, hook \"before forward\": the hook's computation is marked exactly once"},
              {[](Script& s) { put(s, 3, 0, simple(K::forward_begin)); },
               "op 4 \"forward begin\", unit 0, hook \"after forward\": computation begins and ends at the program's "
               "own hooks"},
              {[](Script& s) {
                 s.erase(s.begin() + 2);
                 s[2].ops.pop_back();
               },
               "op 0 \"forward end\", unit 0, hook \"after forward\": a unit that is computed on is whole, its gather "
               "waited for"},
              {[](Script& s) {
                 drop(s, 5, 1);
                 s.erase(s.begin() + 6);  // the reduce hook, which would see it first
               },
               "op 16 \"update\", unit 0, hook \"update\": nothing is whole or partial when the parameters change"},
              {[](Script& s) { s[2].ops[0].unit = 7; },
               "op 0 \"allocate\", unit 7, hook \"before forward\": an op names a unit of the step"}});
}

TEST(Verifier, AProgramThatReadsFindsTheUnitWhole) {
  const Script read = {{Hook::before_read, 0, {allocate(0, B::whole, 512), gather(0, 2), simple(K::wait_gather)}},
                       {Hook::after_read, 0, {free_op(0, 512)}},
                       {Hook::release, -1, {}}};
  expect_all(step(2, 1, 1, 1), read,
             {{[](Script& s) { drop(s, 0, 2); },
               "after op 2, unit 0, hook \"before read\": a unit that is computed on is whole, its gather waited for"},
              {[](Script& s) { s[1].ops.clear(); },
               "after op 3, unit 0, hook \"release\": nothing is whole or in flight then"}});
}

TEST(Verifier, APassWithoutBackwardLeavesOnlyKeptUnitsWhole) {
  const Op begin = simple(K::forward_begin), end = simple(K::forward_end);
  const Script pass = {
      {Hook::begin_evaluation, -1, {}},
      {Hook::before_forward, 0, {allocate(0, B::whole, 512), gather(0, 2), simple(K::wait_gather), begin}},
      {Hook::after_forward, 0, {end}},
      {Hook::end_evaluation, -1, {}}};
  EXPECT_EQ(verdict(step(2, 1, 1, 1, AfterForward::keep()), pass), "");
  EXPECT_EQ(verdict(step(2, 1, 1, 1), pass),
            "after op 5, unit 0, hook \"end evaluation\": after a forward-only pass only kept units are whole");
  Script flying = pass;
  drop(flying, 1, 3);
  drop(flying, 1, 2);
  flying.erase(flying.begin() + 2);
  flying[1].hook = Hook::begin_evaluation;
  EXPECT_EQ(verdict(step(2, 1, 1, 1, AfterForward::keep()), flying),
            "after op 2, unit 0, hook \"end evaluation\": after a forward-only pass only kept units are whole");
}

TEST(Verifier, PartialCopiesAreMadeFromWholeOnesAndGatheredWhileTheyAreThere) {
  expect_all(step(4, 1, 1, 1, AfterForward::shrink(2)), shrunk(),
             {{[](Script& s) {
                 s[3].ops = {simple(K::forward_end), free_op(0, 1024)};
               },
               "op 7 \"gather\", unit 0, hook \"before backward\": a gather over partial copies finds one"},
              {[](Script& s) { s[3].ops[2] = free_op(0, 1024); },
               "op 8 \"gather\", unit 0, hook \"before backward\": a gather over partial copies finds one"},
              {[](Script& s) { s[4].ops[1].ranks = 4; },
               "op 8 \"gather\", unit 0, hook \"before backward\": a gather over partial copies has their ranks"},
              {[](Script& s) { s[4].ops[1].from_partial = false; },
               "op 8 \"gather\", unit 0, hook \"before backward\": a gather is over the shard group"},
              {[](Script& s) { std::swap(s[4].ops[2], s[4].ops[3]); },
               "op 9 \"release\", unit 0, hook \"before backward\": a partial copy stays until the gather over it is "
               "waited for"},
              {[](Script& s) { std::swap(s[3].ops[0], s[3].ops[2]); },
               "op 4 \"shrink\", unit 0, hook \"after forward\": a unit in use is not shrunk"},
              {[](Script& s) { put(s, 3, 3, shrink(0, 1024, 2)); },
               "op 7 \"shrink\", unit 0, hook \"after forward\": a unit that is shrunk is whole"},
              {[](Script& s) { drop(s, 3, 1); },
               "op 5 \"shrink\", unit 0, hook \"after forward\": a shrink finds memory for its partial copy"},
              {[](Script& s) { s[3].ops[2].ranks = 4; },
               "op 6 \"shrink\", unit 0, hook \"after forward\": a shrink is to the ranks that the plan decided"},
              {[](Script& s) { s[3].ops[2].bytes = 512; },
               "op 6 \"shrink\", unit 0, hook \"after forward\": a shrink has the bytes of the whole unit"},
              {[](Script& s) { put(s, 2, 2, shrink(0, 1024, 2)); },
               "op 2 \"shrink\", unit 0, hook \"before forward\": a unit is not shrunk while its gather is in flight"},
              {[](Script& s) {
                 drop(s, 4, 3);
                 s.erase(s.begin() + 6);
               },
               "op 18 \"update\", unit 0, hook \"update\": nothing is whole or partial when the parameters change"}});
}

TEST(Verifier, EveryAllocateHasOneReleaseOfTheSameBytes) {
  expect_all(
      step(2, 1, 1, 1), plain(),
      {{[](Script& s) { s[2].ops[0].bytes = 500; },
        "op 0 \"allocate\", unit 0, hook \"before forward\": an allocate has the bytes of the unit's buffer"},
       {[](Script& s) { put(s, 2, 1, s[2].ops[0]); },
        "op 1 \"allocate\", unit 0, hook \"before forward\": a buffer is allocated once before its release"},
       {[](Script& s) { put(s, 5, 6, s[5].ops[5]); },
        "op 17 \"release\", unit 0, hook \"after backward\": a release has an allocate"},
       {[](Script& s) { s[5].ops[5].bytes = 256; },
        "op 16 \"release\", unit 0, hook \"after backward\": a release has the bytes of its allocate"},
       {[](Script& s) { s[3].ops[1].bytes = 256; },
        "op 5 \"free\", unit 0, hook \"after forward\": a free has the bytes of the whole unit"},
       {[](Script& s) { s[3].ops[1] = release(0, B::whole, 512); },
        "op 5 \"release\", unit 0, hook \"after forward\": whole memory goes back by free or shrink"},
       {[](Script& s) { drop(s, 7, 1); }, "after op 18, unit 0, hook \"update\": every allocate has one release"},
       {[](Script& s) { s.erase(s.begin() + 7); },
        "after op 17, unit 0, hook \"end step\": a step ends after its update"},
       {[](Script& s) {
          s.resize(6);
          s.push_back({Hook::abandon, -1, {}});
        },
        "after op 17, unit 0, hook \"abandon\": every allocate has one release"},
       {[](Script& s) {
          s.resize(3);
          s.push_back({Hook::abandon, -1, {}});
        },
        "after op 4, unit 0, hook \"abandon\": nothing is whole or in flight then"}});
  Script dropped = plain();  // an abandoned step may drop what it has
  dropped.resize(5);
  dropped.push_back({Hook::abandon, -1, {free_op(0, 512), release(0, B::gradient, 512)}});
  EXPECT_EQ(verdict(step(2, 1, 1, 1), dropped), "");
  Step saving = step(2, 1, 1, 1);
  saving.units[0].saved_bytes = 100;
  Script saved = plain();
  put(saved, 2, 4, allocate(0, B::saved, 100));
  put(saved, 5, 1, release(0, B::saved, 100));
  EXPECT_EQ(verdict(saving, saved), "");
  drop(saved, 5, 1);
  EXPECT_EQ(verdict(saving, saved), "after op 20, unit 0, hook \"update\": every allocate has one release");
  EXPECT_EQ(verdict(step(1, 1, 1, 1), {{Hook::before_forward, 0, {allocate(0, B::whole, 256)}}}),
            "op 0 \"allocate\", unit 0, hook \"before forward\": in a shard group of one the shard is the whole");
}

TEST(Verifier, WhatThePlanFreesIsFreeWhenItsMicroBatchIsOver) {
  const auto over = [](AfterBackward after, const std::vector<Op>& ops) {
    Step two = step(2, 1, 2, 1, AfterForward::keep());
    two.units[0].decision.after_backward = after;
    Script s = plain();
    s.resize(3);
    s.push_back({Hook::after_forward, 0, {simple(K::forward_end)}});
    s.push_back({Hook::begin_micro_batch, -1, ops});
    return verdict(two, s);
  };
  EXPECT_EQ(over(AfterBackward::free, {free_op(0, 512)}), "");
  EXPECT_EQ(over(AfterBackward::keep, {}), "");
  EXPECT_EQ(over(AfterBackward::free, {}),
            "after op 5, unit 0, hook \"begin micro-batch\": what the plan frees is free when its micro-batch is over");
  Script unreduced = plain();
  drop(unreduced, 5, 1);
  put(unreduced, 7, 0, free_op(0, 512));
  EXPECT_EQ(verdict(step(2, 1, 1, 1), unreduced),
            "after op 16, unit 0, hook \"reduce\": what the plan frees is free when its micro-batch is over");
}

}  // namespace
}  // namespace reshard::schedule::script
