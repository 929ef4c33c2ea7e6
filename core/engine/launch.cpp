// Starting ranks: one thread each, on the embedded communicator.

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "comm/local/local.h"
#include "reshard/error.h"
#include "reshard/runtime.h"

namespace reshard {
namespace {

void check_mesh(const Job& job) {
  const auto refuse = [&](const char* key, const std::string& value, const char* remedy) {
    throw Error(ErrorCode::config, fmt::format("mesh.{} = \"{}\" is not in this build", key, value),
                job.where(std::string("mesh.") + key), remedy);
  };
  if (job.mesh.device != "cpu") refuse("device", job.mesh.device, "use \"cpu\"");
  if (job.mesh.communicator != "threads") refuse("communicator", job.mesh.communicator, "use \"threads\"");
  if (job.mesh.reduce_order != "tree") refuse("reduce_order", job.mesh.reduce_order, "the CPU adds in tree order: use \"tree\"");
  const int ranks = std::max(1, job.mesh.ranks);
  if (job.mesh.ranks_per_node > 0 && ranks % job.mesh.ranks_per_node != 0)
    throw Error(ErrorCode::config,
                fmt::format("mesh.ranks_per_node = {} does not divide the {} ranks", job.mesh.ranks_per_node, ranks),
                job.where("mesh.ranks_per_node"), "use 0 (all of them) or a divisor");
}

// The failure that caused the others: one that is not merely the news of another rank's.
std::exception_ptr cause(const std::vector<std::exception_ptr>& failures) {
  std::exception_ptr first;
  for (const std::exception_ptr& failure : failures) {
    if (failure == nullptr) continue;
    if (first == nullptr) first = failure;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::rank_failed) return failure;
    } catch (...) {
      return failure;
    }
  }
  return first;
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

void launch(const Job& job, const std::function<void(Rank&)>& body) {
  check_mesh(job);
  const int ranks = std::max(1, job.mesh.ranks);
  comm::LocalRanks all({.ranks = ranks, .timeout_seconds = job.mesh.timeout, .threads_per_rank = job.mesh.overlap ? 2 : 1});
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  const auto run = [&](int index) {
    const std::unique_ptr<comm::Communicator> communicator = all.communicator(index);
    try {
      Rank rank(*communicator);
      body(rank);
      communicator->leave();
    } catch (...) {
      failures[static_cast<std::size_t>(index)] = std::current_exception();
      communicator->fail(text_of(std::current_exception()));
    }
  };
  std::vector<std::jthread> threads;
  for (int index = 0; index < ranks; ++index) threads.emplace_back(run, index);
  threads.clear();  // joins
  if (const std::exception_ptr failure = cause(failures)) std::rethrow_exception(failure);
}

}  // namespace reshard
