// Never stale: a copy of a unit is read only while it is one of the shard as it is now.

#include <vector>

#include <gtest/gtest.h>

#include "engine/executor.h"
#include "reshard/runtime.h"
#include "tests/engine/toy.h"

namespace reshard {
namespace {

using schedule::Op;
using schedule::OpKind;
using schedule::UnitBuffer;

// One unit in bf16 on each rank: gathered or cast, shrunk and gathered from that where `partial`; then, where `writes`,
// a write that frees nothing.
void read_whole(int ranks, bool partial, bool writes) {
  const Model model({.name = "root", .parameters = {{"a", {500}}}});
  launch(toy::job(ranks, "zero3"), [&](Rank& rank) {
    memory::Pool pool;
    const auto stream = device::make_inline_stream();
    engine::Groups groups(rank.communicator());
    engine::Executor executor(model, model::Mesh(ranks, ranks), rank.index(), {Dtype::bf16, Dtype::fp32, {}}, 0, pool,
                              *stream, groups);
    const auto run = [&](OpKind kind, UnitBuffer buffer, int64_t elements, int among) {
      Op op;
      op.kind = kind;
      op.unit = 0;
      op.buffer = buffer;
      op.bytes = elements * bytes_of(Dtype::bf16);
      op.ranks = among;
      op.from_partial = kind == OpKind::gather && among < ranks;
      executor.run(op);
    };
    const int64_t whole = executor.at(0).layout.whole_elements();
    run(OpKind::allocate, UnitBuffer::whole, whole, ranks);
    run(ranks == 1 ? OpKind::cast : OpKind::gather, UnitBuffer::whole, whole, ranks);
    executor.whole(0);
    if (partial) {
      executor.prepare_partial(2);
      run(OpKind::allocate, UnitBuffer::partial, whole / 2, 2);
      run(OpKind::shrink, UnitBuffer::partial, whole / 2, 2);
    }
    if (writes) executor.at(0).shard.write();
    if (partial) {
      run(OpKind::allocate, UnitBuffer::whole, whole, 2);
      run(OpKind::gather, UnitBuffer::whole, whole, 2);
    }
    executor.whole(0);
    executor.give_back();
  });
}

TEST(ExecutorDeathTest, ACopyOfAnEarlierShardIsNotRead) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const int ranks : {1, 2, 4})
    for (const bool partial : {false, true}) {
      if (partial && ranks < 4) continue;
      read_whole(ranks, partial, false);
      EXPECT_DEATH(read_whole(ranks, partial, true), "a copy of a unit is of its shard as it is now")
          << ranks << " ranks" << (partial ? ", partial" : "");
    }
}

}  // namespace
}  // namespace reshard
