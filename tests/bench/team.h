#pragma once

// For benchmarks: N threads that do something at the same time, timed from the common start to the last one's end, and
// two things that are timed in turns, so that a noisy machine disturbs both alike.

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reshard::bench {

// The calling thread is rank 0 and the others wait for it, so that no thread without work takes a core. Each rank stays
// on a core of its own where there are enough.
class Team {
 public:
  explicit Team(int size) : size_(size) {
    pin(0);
    for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  }
  ~Team() {
    work_ = nullptr;
    start_.fetch_add(1);
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int size() const { return size_; }

  // Seconds that work(rank) takes on all threads together.
  double seconds(const std::function<void(int rank)>& work) {
    work_ = &work;
    done_.store(0);
    ready_.store(0);
    start_.fetch_add(1);
    start_.notify_all();
    run(0);
    while (done_.load() != size_) std::this_thread::yield();
    const auto begin = *std::min_element(begin_.begin(), begin_.end()),
               end = *std::max_element(end_.begin(), end_.end());
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void pin(int rank) const {
    if (size_ > static_cast<int>(std::thread::hardware_concurrency())) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(rank), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);  // without effect where that core is not ours
  }

  void serve(int rank) {
    pin(rank);
    for (int round = 0;; ++round) {
      start_.wait(round);
      if (work_ == nullptr) return;
      run(rank);
    }
  }

  void run(int rank) {
    ready_.fetch_add(1);
    while (ready_.load() != size_) std::this_thread::yield();
    begin_[static_cast<size_t>(rank)] = Clock::now();
    (*work_)(rank);
    end_[static_cast<size_t>(rank)] = Clock::now();
    done_.fetch_add(1);
  }

  const int size_;
  std::vector<Clock::time_point> begin_ = std::vector<Clock::time_point>(static_cast<size_t>(size_));
  std::vector<Clock::time_point> end_ = begin_;
  std::atomic<int> start_{0}, ready_{0}, done_{0};
  const std::function<void(int)>* work_ = nullptr;
  std::vector<std::thread> threads_;
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Times of two things that were measured in turns.
struct Pairs {
  std::vector<double> first, second, ratios;

  void add(double a, double b) {
    first.push_back(a);
    second.push_back(b);
    ratios.push_back(b / a);
  }
};

// STREAM's add with stores past the caches: sum[i] = a[i] + b[i]. REQUIRES: 64-byte aligned, count a multiple of 16.
inline void stream_add(const float* a, const float* b, float* sum, size_t count) {
#if defined(__x86_64__)
  for (size_t i = 0; i < count; i += 4) _mm_stream_ps(sum + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
  _mm_sfence();
#else
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
#endif
}

// The same with ordinary stores.
inline void cached_add(const float* __restrict a, const float* __restrict b, float* __restrict sum, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

}  // namespace reshard::bench
