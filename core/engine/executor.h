#pragma once

// Carries out ops on real bytes: one rank's unit memory, its communication stream, one switch over op kinds. It decides
// nothing: what is gathered, freed and reduced, and when, stands in the ops.
//
// Threads: the rank's compute thread. Collectives run on the communication stream, which is that thread itself (inline)
// or a worker; memory that a collective works on is neither moved nor released before its event is waited for.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "engine/groups.h"
#include "engine/meter.h"
#include "memory/pool.h"
#include "model/layout.h"
#include "model/mesh.h"
#include "reshard/dtype.h"
#include "reshard/model.h"
#include "schedule/declared.h"
#include "schedule/op.h"

namespace reshard::engine {

// A unit's parameters on this rank, in fp32. Every taking of them to write is another version, so that a copy of an
// earlier one is known to be stale.
class Shard {
 public:
  explicit Shard(memory::Block block = {}) : block_(std::move(block)) {}
  const float* values() const { return block_.as<float>(); }
  float* write() { return replace().as<float>(); }
  memory::Block& replace() {
    ++version_;
    return block_;
  }
  uint64_t version() const { return version_; }

 private:
  memory::Block block_;
  uint64_t version_ = 0;
};

// A unit on this rank. Its address does not change.
struct UnitMemory {
  model::Layout layout{std::span<const int64_t>{}, 1};
  Dtype dtype = Dtype::fp32;               // of whole and partial copies and of the gradient
  std::vector<model::Fragment> fragments;  // of this rank's shard
  Shard shard;
  std::vector<memory::Block> states;       // one per state tensor, fp32, each as long as the shard's trainable section
  std::array<memory::Block, schedule::kUnitBuffers> blocks;
  std::array<uint64_t, schedule::kUnitBuffers> versions{};  // of the shard that whole, master and partial are copies of
  device::Event gathered, reduced;
  Transfer reducing = Transfer::reduce;  // what `reduced` waits for

  memory::Block& block(schedule::UnitBuffer buffer) { return blocks[static_cast<std::size_t>(buffer)]; }
  uint64_t& version(schedule::UnitBuffer copy) { return versions[static_cast<std::size_t>(copy)]; }
  int64_t trained_elements() const { return layout.trainable().shard_elements; }  // of this rank's shard
};

class Executor {
 public:
  // Allocates shards (zeroed) and, for trainable parameters, `state_tensors` of optimizer state (zeroed). REQUIRES:
  // pool, stream and groups outlive it.
  Executor(const Model& model, const model::Mesh& mesh, int rank, const schedule::Precision& precision,
           int state_tensors, memory::Pool& pool, device::Stream& stream, Groups& groups);

  // Makes the communicators of partial copies over k ranks. Collective.
  void prepare_partial(int k);

  // What the last addition of a gradient is multiplied with: 1 / (ranks × micro-batches), or by the job's choice.
  void set_divisor(double divisor) { scale_ = static_cast<float>(1.0 / divisor); }

  // Every op but `update`, which is the caller's. Throws what a collective threw.
  void run(const schedule::Op& op);

  // Returns when every rank has come here, through the groups that the ops use: a rank that left a unit out is in the same
  // group as those that wait for it there, and both are named. The second only between replicas, for whoever has just
  // exchanged something in the shard group. Collective.
  void meet();
  void meet_replicas();

  // After an exception, whichever op it came from: releases all but shards, optimizer state and carried gradients.
  // REQUIRES: the stream is drained.
  void give_back();

  // The unit's parameters where kernels read them, in the unit's dtype. REQUIRES: whole, and a copy of the shard as it is
  // now.
  void* whole(int unit);
  // The same in fp32, between before_read and after_read; to write only where it is a copy.
  float* master(int unit);
  void* gradient(int unit) { return at(unit).block(schedule::UnitBuffer::gradient).data(); }  // null: there is none

  // The reduced gradient of this rank's trainable section, in fp32; null: the unit took no part in this step. Valid
  // until the next call.
  const float* reduced_gradient(int unit);

  UnitMemory& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  const UnitMemory& at(int unit) const { return units_[static_cast<std::size_t>(unit)]; }
  int unit_count() const { return static_cast<int>(units_.size()); }
  const model::Mesh& mesh() const { return mesh_; }
  comm::Communicator& shard_group() { return *shard_group_; }
  Meter& meter() { return meter_; }
  const Meter& meter() const { return meter_; }

  // Lays parameters and optimizer state out anew, a tensor of a unit at a time. Nothing may be whole. Collective.
  // Returns the bytes that this rank received.
  int64_t relay(const model::Mesh& mesh);

 private:
  void* current(int unit, schedule::UnitBuffer copy);
  void gather(const schedule::Op& op);
  void gather_from_partial(const schedule::Op& op);
  void shrink(const schedule::Op& op);
  void reduce(const schedule::Op& op);
  void all_reduce(const schedule::Op& op);
  void accumulate(const schedule::Op& op);
  void allocate(const schedule::Op& op);
  void wait(const device::Event& event, Transfer kind, int unit);
  Dtype dtype(int unit, schedule::UnitBuffer buffer) const;
  void make_widened();
  int64_t relay_tensor(memory::Block& tensor, const UnitMemory& unit, const model::Layout& to, const model::Mesh& mesh,
                       MemoryCategory category, const comm::Tag& tag);
  comm::Tag tag(int unit) const;

  // Runs `collective` on the stream and times it.
  template <typename Collective>
  void launch(Transfer kind, int unit, const Collective& collective);

  const Model& model_;
  model::Mesh mesh_;
  int rank_;
  const schedule::Precision precision_;
  memory::Pool& pool_;
  device::Stream& stream_;
  Groups& groups_;
  comm::Communicator* shard_group_ = nullptr;
  comm::Communicator* replica_group_ = nullptr;
  std::vector<std::pair<int, comm::Communicator*>> partial_groups_;  // by k
  std::vector<UnitMemory> units_;
  memory::Block widened_;  // one unit's reduced gradient in fp32, where it is kept in another dtype
  Meter meter_;
  float scale_ = 1.0F;
};

template <typename Collective>
void Executor::launch(Transfer kind, int unit, const Collective& collective) {
  const int64_t begin = now_ns();
  Meter* meter = &meter_;
  stream_.submit([=] {
    const int64_t start = now_ns();
    collective();
    meter->ran(kind, now_ns() - start);
  });
  if (!stream_.concurrent()) meter_.exposed(kind, unit, now_ns() - begin);
}

}  // namespace reshard::engine
