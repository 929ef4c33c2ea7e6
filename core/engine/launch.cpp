// Starting ranks: one thread each, on the embedded communicator; or this process, where a launcher has started one per
// rank.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "comm/local/local.h"
#include "comm/processes.h"
#include "engine/failure_text.h"
#include "engine/planning.h"
#include "reshard/error.h"
#include "reshard/runtime.h"

namespace reshard {
namespace {

void check_built(const Job& job) {
  const auto refuse = [&](const char* key, const std::string& value, const char* remedy) {
    throw Error(ErrorCode::config, fmt::format("mesh.{} = \"{}\" is not in this build", key, value),
                job.where(std::string("mesh.") + key), remedy);
  };
  if (job.mesh.device != "cpu") refuse("device", job.mesh.device, "use \"cpu\"");
  if (job.mesh.communicator != "threads" && job.mesh.communicator != "mpi")
    refuse("communicator", job.mesh.communicator, "use \"threads\" or \"mpi\"");
  if (job.mesh.reduce_order != "tree")
    refuse("reduce_order", job.mesh.reduce_order, "the CPU adds in tree order: use \"tree\"");
}

// The rank whose failure caused the others: one that is not merely the news of another's. -1: none failed.
int cause(const std::vector<std::exception_ptr>& failures) {
  int first = -1;
  for (int rank = 0; rank < static_cast<int>(failures.size()); ++rank) {
    const std::exception_ptr& failure = failures[static_cast<std::size_t>(rank)];
    if (failure == nullptr) continue;
    if (first < 0) first = rank;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::rank_failed) return rank;
    } catch (...) {
      return rank;
    }
  }
  return first;
}

// An error says by itself where it comes from; whatever else a rank throws gets the rank's number, with the original
// nested inside.
[[noreturn]] void throw_from_rank(const std::exception_ptr& failure, int rank) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(ErrorCode::rank_failed, fmt::format("rank {} failed: {}", rank, error.what())));
  } catch (...) {
    std::throw_with_nested(
        Error(ErrorCode::rank_failed, fmt::format("rank {} failed: an exception of an unknown type", rank)));
  }
}

// Which ranks have ended, for the thread that waits for all of them.
class Ended {
 public:
  // `failure` may be null: the rank has returned.
  void add(const std::exception_ptr& failure) {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (failure != nullptr && first_ == nullptr) first_ = failure;
    changed_.notify_one();
  }

  // Waits for all ranks. After a failure the others learn of it at their next hook: one that has come to none within
  // `seconds` never will, and a thread cannot be ended from outside. So the process is, with what the first rank said.
  void wait(int ranks, double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == ranks || first_ != nullptr; });
    const auto all = [&] { return count_ == ranks; };
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), all)) return;
    base::end_process(fmt::format("{}\n{} of {} ranks have not come to a hook for another {:g} s: the process is ended",
                                  engine::failure_text(first_), ranks - count_, ranks, seconds));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  std::exception_ptr first_;
};

}  // namespace

void engine::check_mesh(const Job& job) {
  check_built(job);
}

// Where ranks are threads of this process, each process of a launcher would train a model of its own.
void engine::check_launcher(const Job& job) {
  const std::optional<comm::Launched> launched = comm::launched();
  if (job.mesh.communicator == "threads") {
    if (job.mesh.ranks == 0 && launched && launched->size > 1)
      throw Error(
          ErrorCode::config,
          fmt::format("this process is one of {} that {} has started, and this job's ranks are threads of one process",
                      launched->size, launched->by),
          job.where("mesh.ranks"), "start one process and set [mesh] ranks, or set communicator = \"mpi\"");
  } else if (const int started = launched ? launched->size : 1; job.rank_count() != started) {
    throw Error(ErrorCode::config,
                fmt::format("the job has {} ranks, and {}", job.rank_count(),
                            launched ? fmt::format("{} has started {} {}", launched->by, started,
                                                   started == 1 ? "process" : "processes")
                                     : "no launcher has started this process"),
                job.where("mesh.ranks"),
                fmt::format("start it by mpirun -n {}, or with --processes", job.rank_count()));
  }
}

namespace {

// This process is one rank. One that fails waits for what the others have to say: a launcher ends all with the first.
void launch_process(const Job& job, const std::function<void(Rank&)>& body) {
  const comm::ProcessOptions options{.timeout_seconds = job.mesh.timeout, .threads_per_rank = job.mesh.overlap ? 2 : 1};
  const std::unique_ptr<comm::Processes> processes =
      comm::start_processes(job.mesh.communicator, options, job.where("mesh.communicator"));
  const std::unique_ptr<comm::Communicator> communicator = processes->communicator();
  if (communicator->size() != job.rank_count())  // a launcher that the module does not know starts so many groups of one
    throw Error(ErrorCode::config,
                fmt::format("the job has {} ranks, and {} finds {} {}", job.rank_count(), job.mesh.communicator,
                            communicator->size(), communicator->size() == 1 ? "process" : "processes"),
                job.where("mesh.communicator"), fmt::format("start it by mpirun -n {}", job.rank_count()));
  std::exception_ptr failure;
  try {
    Rank rank(*communicator);
    body(rank);
    communicator->leave();
  } catch (...) {
    failure = std::current_exception();
    communicator->fail(engine::failure_text(failure));
  }
  if (failure == nullptr) return;
  if (!processes->wait_for_all()) {
    if (!processes->is_first_of_ended()) {  // that one speaks, and the launcher ends all others with it
      std::this_thread::sleep_for(std::chrono::seconds(1));
      std::_Exit(1);
    }
    base::end_process(fmt::format("{}\nnot all ranks have come to a hook for another {:g} s: the processes are ended",
                                  engine::failure_text(failure), job.mesh.timeout));
  }
  throw_from_rank(failure, communicator->rank());
}

void launch_threads(const Job& job, const std::function<void(Rank&)>& body) {
  const int ranks = job.rank_count();
  comm::LocalRanks all(
      {.ranks = ranks, .timeout_seconds = job.mesh.timeout, .threads_per_rank = job.mesh.overlap ? 2 : 1});
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  Ended ended;
  const auto run = [&](int index) {
    const std::unique_ptr<comm::Communicator> communicator = all.communicator(index);
    try {
      Rank rank(*communicator);
      body(rank);
      communicator->leave();
    } catch (...) {
      failures[static_cast<std::size_t>(index)] = std::current_exception();
      communicator->fail(engine::failure_text(std::current_exception()));
    }
    ended.add(failures[static_cast<std::size_t>(index)]);
  };
  std::vector<std::jthread> threads;
  try {
    for (int index = 0; index < ranks; ++index) threads.emplace_back(run, index);
  } catch (const std::system_error& error) {
    const auto started = threads.size();
    all.communicator(static_cast<int>(started))->fail("it could not be started");
    threads.clear();
    throw Error(ErrorCode::io, fmt::format("cannot start rank {} of {}: {}", started, ranks, error.what()), "",
                "use fewer ranks, or raise the limits on threads and memory (ulimit -u, ulimit -v)");
  }
  ended.wait(ranks, job.mesh.timeout);
  threads.clear();  // joins
  if (const int failed = cause(failures); failed >= 0)
    throw_from_rank(failures[static_cast<std::size_t>(failed)], failed);
}

}  // namespace

void launch(const Job& job, const std::function<void(Rank&)>& body) {
  check(job);
  engine::check_mesh(job);
  engine::check_launcher(job);
  engine::check_names(job);
  job.mesh.communicator == "threads" ? launch_threads(job, body) : launch_process(job, body);
}

}  // namespace reshard
