#pragma once

// A rank's communicator that tells before every collective, and counts the groups that are made of it.

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "comm/communicator.h"

namespace reshard::toy {

class WatchedCommunicator final : public comm::Communicator {
 public:
  // `before` is called by every thread that uses the communicator or a group of it. REQUIRES: `real` outlives this.
  WatchedCommunicator(comm::Communicator& real, std::function<void()> before)
      : real_(&real), before_(std::move(before)), groups_(std::make_shared<std::atomic<int>>(0)) {}

  int groups() const { return *groups_; }

  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  void all_gather(const void* shard, size_t bytes, void* whole, const comm::Tag& tag) override {
    before_();
    real_->all_gather(shard, bytes, whole, tag);
  }
  void reduce_scatter(const void* input, Dtype input_dtype, void* output, Dtype output_dtype, size_t count,
                      const comm::ReduceOptions& options, const comm::Tag& tag) override {
    before_();
    real_->reduce_scatter(input, input_dtype, output, output_dtype, count, options, tag);
  }
  void all_reduce(const void* input, void* output, Dtype dtype, size_t count, const comm::ReduceOptions& options,
                  const comm::Tag& tag) override {
    before_();
    real_->all_reduce(input, output, dtype, count, options, tag);
  }
  void broadcast(void* data, size_t bytes, int root, const comm::Tag& tag) override {
    before_();
    real_->broadcast(data, bytes, root, tag);
  }
  void barrier(const comm::Tag& tag) override {
    before_();
    real_->barrier(tag);
  }
  void exchange(const void* mine, size_t bytes, void* all, const comm::Tag& tag) override {
    before_();
    real_->exchange(mine, bytes, all, tag);
  }
  std::unique_ptr<comm::Communicator> group(std::span<const int> ranks) override {
    ++*groups_;
    return std::unique_ptr<comm::Communicator>(new WatchedCommunicator(real_->group(ranks), before_, groups_));
  }
  void fail(std::string_view message) noexcept override { real_->fail(message); }
  void interrupt(std::string_view message) noexcept override { real_->interrupt(message); }
  bool interrupted() const override { return real_->interrupted(); }
  void check() const override { real_->check(); }
  void recover() override { real_->recover(); }
  void leave() noexcept override { real_->leave(); }

 private:
  WatchedCommunicator(std::unique_ptr<comm::Communicator> real, std::function<void()> before,
                      std::shared_ptr<std::atomic<int>> groups)
      : owned_(std::move(real)), real_(owned_.get()), before_(std::move(before)), groups_(std::move(groups)) {}

  std::unique_ptr<comm::Communicator> owned_;
  comm::Communicator* real_;
  std::function<void()> before_;
  std::shared_ptr<std::atomic<int>> groups_;
};

}  // namespace reshard::toy
