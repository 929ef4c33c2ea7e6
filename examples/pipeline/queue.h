#pragma once

// What hands a micro-batch's activations from one stage's thread to the other's. For any two threads.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "reshard/error.h"

namespace pipeline {

using Rows = std::vector<float>;

// Once closed, nobody waits: pop throws Error(rank_failed).
class Queue {
 public:
  void push(Rows rows) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(rows));
    changed_.notify_one();
  }
  Rows pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (closed_) throw reshard::Error(reshard::ErrorCode::rank_failed, "the other stage has failed");
    Rows rows = std::move(waiting_.front());
    waiting_.pop_front();
    return rows;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Rows> waiting_;
  bool closed_ = false;
};

}  // namespace pipeline
