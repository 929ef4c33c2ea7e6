#pragma once

// A job: everything that a job file can say, as plain structs with their defaults. It is read once (read_job), or
// filled in code without any file. Plain values: copy it, hand it to every rank; nothing in it changes while the job
// runs.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/options.h"
#include "reshard/table.h"
#include "reshard/decision.h"
#include "reshard/override.h"

namespace reshard {

struct Job {
  // `[[strategy.variant]]`: a strategy with other options under a name of its own, for --strategies, --strategy,
  // strategy.plugin and the switches. No variant of a variant.
  struct Variant {
    std::string name;      // no installed strategy's
    std::string plugin;    // a name, or the absolute path of a .so
    OptionValues options;  // over those of [strategy.options.PLUGIN], key by key
    std::string where;
  };

  // `[[strategy.switch]]`: another strategy from a step on.
  struct Switch {
    int64_t at_step = 0;   // after so many finished steps, >= 1; rising from entry to entry
    std::string plugin;    // as Strategy::plugin
    OptionValues options;  // over those of [strategy.options.PLUGIN], key by key
    std::string where;
  };

  struct Strategy {
    std::string plugin;  // a name, a variant's too, or the absolute path of a .so; empty = not given
    std::optional<int> shard_over;                // ranks a unit is sharded over; 0 = all; absent = the plugin decides
    std::optional<AllReduce> all_reduce;          // when replicas exchange their shards; absent = the plugin decides
    // What backward prefetches go back over: "micro_batch" | "since_backward" | "since_step" (BackwardOrder).
    std::string backward_order = "micro_batch";
    std::map<std::string, OptionValues> options;  // by plugin name; unchecked until that plugin is loaded
    std::vector<UnitOverride> units;              // in the order of the file, then of the command line
    std::vector<Variant> variants;
    std::vector<Switch> switches;
  };

  struct Mesh {
    int ranks = 0;                         // 0 = what mpirun, srun or torchrun started, else 1
    std::string device = "cpu";            // "cpu" | "cuda"
    std::string communicator = "threads";  // "threads" | "mpi" | "nccl" | "shared_device"
    int ranks_per_node = 0;                // 0 = all of them
    bool overlap = false;                  // a worker thread per rank runs the communication
    double timeout = 60;                   // seconds that a rank may be waited for
    std::string reduce_order = "tree";     // "tree" | "native" (the library's own order, GPUs only)
    bool operator==(const Mesh&) const = default;
  };

  struct Precision {
    std::string param_dtype = "fp32";   // "fp32" | "bf16": what parameters are gathered and computed in
    std::string reduce_dtype = "fp32";  // "fp32" | "bf16": what gradients are added in
    bool operator==(const Precision&) const = default;
  };

  struct Memory {
    int64_t budget = 0;  // bytes per rank at the predicted peak; 0 = none
    bool operator==(const Memory&) const = default;
  };

  struct Train {
    int64_t steps = 200;
    int64_t global_batch = 16;   // sequences per step over all ranks
    int microbatches = 1;        // per rank and step
    uint64_t seed = 1;           // of parameters, data order and samples
    int64_t evaluate_every = 0;  // steps; 0 = never
    std::string divisor = "ranks";   // of summed gradients: "ranks" (times micro-batches) | "tokens" | "none"
    int64_t stop_after_skipped = 1;  // steps in a row whose loss or gradient is not finite; 0 = never
    bool operator==(const Train&) const = default;
  };

  struct Schedule {
    std::string name = "constant";  // "constant" | "cosine"
    int64_t warmup_steps = 0;       // steps over which lr rises from 0
    double final_ratio = 0.1;       // cosine: lr at the last step as a part of the largest
    bool operator==(const Schedule&) const = default;
  };

  // `[[optimizer.group]]`: parameters whose learning rate or decay is their own. Every field of the last entry that
  // matches and sets it counts; a full name beats a glob.
  struct Group {
    std::string match;                   // a parameter's name or a glob: "*.bias"
    std::optional<double> lr_scale;      // times lr and times the program's own factor
    std::optional<double> weight_decay;  // in place of [optimizer] weight_decay and of the program's choice
    std::string where;                   // not compared
    bool operator==(const Group& other) const {
      return match == other.match && lr_scale == other.lr_scale && weight_decay == other.weight_decay;
    }
  };

  struct Optimizer {
    std::string name = "adamw";  // "adamw" | "sgd" | "program" (handed over in C++)
    double lr = 1e-3;
    std::array<double, 2> betas{0.9, 0.95};  // adamw
    double eps = 1e-8;                       // adamw
    double momentum = 0;                     // sgd
    double weight_decay = 0;
    double clip_norm = 0;      // largest global norm of the gradient; 0 = off
    std::string norm = "l2";   // "l2" | "inf": which norm
    Schedule schedule;
    std::vector<Group> groups;
    bool operator==(const Optimizer&) const = default;
  };

  // `[[plugins.pin]]`: which bytes a strategy's file may have. Several entries of one name allow any of them.
  struct Pin {
    std::string name;    // the strategy's
    std::string sha256;  // of the whole file, 64 hexadecimal digits in lower case
    std::string where;   // not compared
    bool operator==(const Pin& other) const { return name == other.name && sha256 == other.sha256; }
  };

  struct Plugins {
    std::vector<std::string> path;  // folders that are searched first, absolute
    std::string trust = "owner";    // "pinned" | "owner" | "any": whose files are loaded
    std::string probe = "always";   // "always" | "never": load a file in a child process first
    bool env_path = true;           // search the folders of RESHARD_PLUGIN_PATH, too
    std::string manifest;           // file that says what a run was made of; empty = one of its own per run
    std::vector<Pin> pins;          // hold under every `trust`
    bool operator==(const Plugins&) const = default;
  };

  // Where a value was given.
  struct Place {
    std::string where;          // "job.toml:14:1", "--set train.steps"
    bool command_line = false;  // else the job file
  };

  // A value of the job file that the command line replaced.
  struct Replaced {
    std::string text;   // as TOML: `"acme_mine"`, `4`
    std::string where;  // "job.toml:5:1"
  };

  Strategy strategy;
  Mesh mesh;
  Precision precision;
  Memory memory;
  Train train;
  Optimizer optimizer;
  Plugins plugins;

  std::string file;                          // the job file's path as the user gave it; empty = filled in code
  std::map<std::string, Place> places;       // by key ("train.steps", the program's too)
  std::map<std::string, Replaced> replaced;  // by key: what the command line replaced

  // The ranks of a run that no launcher started: mesh.ranks, 1 where that is 0.
  int rank_count() const;  // mesh.ranks, where that is 0 what a launcher has started, for processes, else 1

  // Where the value of a key came from: "job.toml:14:1", "--set train.steps", or "default".
  std::string where(std::string_view key) const;
};

// Reads a job file; `program` are the program's own tables, whose fields are written too. Throws Error(config) with
// file:line:column for whatever is wrong with it.
Job read_job(const std::string& path, Tables& program);
Job read_job(const std::string& path);

// The job as commented TOML: every key, defaults included; it reads back to the same job.
std::string print_job(const Job& job, const Tables& program = {});

// Checks a job that was filled or changed in code as reading one would; throws Error(config). `strategy.plugin` may
// still be empty: require_plugin() asks for it.
void check(const Job& job);
void require_plugin(const Job& job);

}  // namespace reshard
