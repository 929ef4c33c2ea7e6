// Both kinds of stream run tasks in order, events follow them, and what a task throws reaches the owner.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device/device.h"
#include "tests/prompt.h"

namespace reshard::device {
namespace {

std::unique_ptr<Stream> make(bool worker) {
  return worker ? make_worker_stream("test") : make_inline_stream();
}

void pause_up_to(unsigned microseconds, std::mt19937& random) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % (microseconds + 1));
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

class Streams : public testing::TestWithParam<bool> {};

// Far more tasks than the ring holds, from an owner that is now faster, now slower than the worker.
TEST_P(Streams, run_tasks_in_order) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    std::vector<int> seen;
    {
      const auto stream = make(GetParam());
      for (int i = 0; i < 5000; ++i) {
        stream->submit([&seen, i] { seen.push_back(i); });
        if (seed % 2 == 1 && random() % 50 == 0) pause_up_to(200, random);
      }
    }  // the destructor lets everything finish
    ASSERT_EQ(seen.size(), 5000U);
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

TEST_P(Streams, an_event_is_done_when_all_before_it_has_run) {
  std::mt19937 random(3);
  const auto stream = make(GetParam());
  int ran = 0;  // not atomic: waiting for the event must be what makes it safe to read
  std::vector<std::pair<Event, int>> events;
  for (int i = 1; i <= 3000; ++i) {
    stream->submit([&ran, i] { ran = i; });
    if (random() % 10 == 0) events.emplace_back(stream->record(), i);
    if (random() % 100 == 0) {
      const Event last = stream->record();
      last.wait();
      EXPECT_TRUE(last.done());
      EXPECT_EQ(ran, i);
      for (const auto& [event, at] : events) EXPECT_TRUE(event.done()) << at;
    }
  }
  stream->synchronize();
  EXPECT_EQ(ran, 3000);
  EXPECT_TRUE(Event().done());
  Event().wait();
}

TEST_P(Streams, a_task_may_take_all_of_the_payload) {
  struct Large {
    int64_t values[12];
    int64_t* sum;
  };
  const auto stream = make(GetParam());
  int64_t sum = 0;
  Large large{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, &sum};
  stream->submit([large] {
    for (const int64_t value : large.values) *large.sum += value;
  });
  stream->synchronize();
  EXPECT_EQ(sum, 78);
}

INSTANTIATE_TEST_SUITE_P(kinds, Streams, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "worker" : "inline_"; });

struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
  int detail = 42;
};

TEST(WorkerStream, an_event_is_not_done_while_its_task_runs) {
  std::atomic<bool> go{false};
  const auto stream = make_worker_stream("test");
  EXPECT_TRUE(stream->concurrent());
  stream->submit([&go] {
    while (!go.load()) std::this_thread::yield();
  });
  const Event event = stream->record();
  EXPECT_FALSE(event.done());
  go.store(true);
  event.wait();
  EXPECT_TRUE(event.done());
}

TEST(WorkerStream, keeps_what_a_task_threw_and_skips_the_rest) {
  const auto stream = make_worker_stream("test");
  bool ran_after = false;
  stream->submit([] {
    OwnError error("the third unit");
    error.detail = 7;
    throw error;
  });
  const auto expect_error = [](auto&& call) {
    try {
      call();
      ADD_FAILURE() << "no exception";
    } catch (const OwnError& error) {
      EXPECT_STREQ(error.what(), "the third unit");
      EXPECT_EQ(error.detail, 7);
    }
  };
  stream->drain();
  expect_error([&] { stream->submit([&ran_after] { ran_after = true; }); });
  expect_error([&] { stream->record(); });
  expect_error([&] { stream->synchronize(); });
  expect_error([&] { Event(stream.get(), 1).wait(); });
  EXPECT_TRUE(Event(stream.get(), 1).done());
  EXPECT_FALSE(ran_after);
}

TEST(WorkerStream, takes_tasks_again_after_a_restart) {
  const auto stream = make_worker_stream("test");
  for (int round = 0; round < 200; ++round) {
    int ran = 0;
    stream->submit([&ran] { ++ran; });
    stream->submit([] { throw OwnError("this round's"); });
    for (int i = 0; i < 5; ++i) {
      try {
        stream->submit([&ran] { ran += 100; });
      } catch (const OwnError&) {
      }
    }
    stream->restart();
    EXPECT_EQ(ran, 1);
    stream->submit([&ran] { ++ran; });
    stream->synchronize();
    EXPECT_EQ(ran, 2);
  }
}

TEST(WorkerStream, skips_tasks_that_were_queued_behind_the_failure) {
  std::atomic<bool> go{false};
  std::atomic<int> ran{0};
  const auto stream = make_worker_stream("test");
  stream->submit([&go] {
    while (!go.load()) std::this_thread::yield();
    throw OwnError("first");
  });
  for (int i = 0; i < 100; ++i) stream->submit([&ran] { ++ran; });
  const Event event = stream->record();
  go.store(true);
  EXPECT_THROW(event.wait(), OwnError);
  EXPECT_EQ(ran.load(), 0);
}

TEST(InlineStream, throws_out_of_submit_and_goes_on) {
  const auto stream = make_inline_stream();
  EXPECT_FALSE(stream->concurrent());
  EXPECT_THROW(stream->submit([] { throw OwnError("here"); }), OwnError);
  bool ran = false;
  stream->submit([&ran] { ran = true; });
  EXPECT_TRUE(ran);
}

// A worker that has slept wakes for a new task, and an owner that sleeps wakes for its end.
TEST(WorkerStream, wakes_after_a_long_pause) {
  const auto stream = make_worker_stream("test");
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const auto start = std::chrono::steady_clock::now();
    bool ran = false;
    stream->submit([&ran] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ran = true;
    });
    stream->synchronize();
    EXPECT_TRUE(ran);
    EXPECT_LT(std::chrono::steady_clock::now() - start, tests::kPrompt);
  }
}

}  // namespace
}  // namespace reshard::device
