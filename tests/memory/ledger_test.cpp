// The ledger against a reference model that keeps the whole history: now, peak and the peak's moment, under random
// counts.

#include "memory/ledger.h"

#include <gtest/gtest.h>

#include <random>

namespace reshard::memory {
namespace {

TEST(Ledger, agrees_with_a_model_that_keeps_the_history) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Ledger ledger;
    Bytes now, peak;
    Moment peak_moment;
    for (int i = 0; i < 3000; ++i) {
      const Moment moment{i, static_cast<int>(random() % 9), static_cast<int>(random() % 3)};
      ledger.set_moment(moment);
      const auto category = static_cast<Category>(random() % kCategories);
      const int64_t live = now[category];
      const bool remove = live > 0 && random() % 2 == 0;
      const int64_t bytes =
          remove ? 1 + static_cast<int64_t>(random()) % live : static_cast<int64_t>(random() % 100000);
      remove ? ledger.remove(category, bytes) : ledger.add(category, bytes);
      now.by_category[static_cast<size_t>(category)] += remove ? -bytes : bytes;
      if (now.total() > peak.total()) {
        peak = now;
        peak_moment = moment;
      }
      if (random() % 700 == 0) {
        ledger.reset_peak();
        peak = now;
        peak_moment = moment;
      }
      ASSERT_EQ(ledger.now(), now);
      ASSERT_EQ(ledger.peak(), peak);
      ASSERT_EQ(ledger.peak_moment(), peak_moment);
    }
  }
}

TEST(Ledger, has_a_name_for_every_category) {
  EXPECT_STREQ(name(Category::sharded_parameters), "sharded parameters");
  EXPECT_STREQ(name(Category::whole_parameters), "whole parameters");
  EXPECT_STREQ(name(Category::gradients), "gradients");
  EXPECT_STREQ(name(Category::reduce_buffers), "reduce buffers");
  EXPECT_STREQ(name(Category::optimizer_state), "optimizer state");
  EXPECT_STREQ(name(Category::activations), "activations");
}

TEST(LedgerDeathTest, stops_when_more_is_released_than_was_counted) {
  Ledger ledger;
  ledger.add(Category::gradients, 10);
  EXPECT_DEATH(ledger.remove(Category::gradients, 11), "no more bytes are released than were counted");
}

}  // namespace
}  // namespace reshard::memory
