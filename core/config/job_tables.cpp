#include "config/job_tables.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "config/value.h"
#include "reshard/error.h"

namespace reshard::config {
namespace {

constexpr double kMostSteps = 1e9;
constexpr double kMostSequences = 1e9;

Table strategy_table(Job::Strategy& strategy) {
  Table table("strategy", "What is kept and what is freed: a plugin's decisions, and the user's last word over them.");
  table
      .key("plugin", &strategy.plugin,
           {.doc = "a name that `plugins list` shows, or the path of a .so",
            .path = PathKind::plugin,
            .not_empty = true})
      .key("shard_over", &strategy.shard_over,
           {.doc = "ranks a unit is sharded over; 0 = all, k = replicas of k ranks; absent = the plugin decides",
            .min = 0,
            .max = kMostRanks})
      .key("all_reduce", &strategy.all_reduce,
           {.doc = "when replicas exchange their shards: \"each\" | \"last\" micro-batch; absent = the plugin decides"})
      .key("backward_order", &strategy.backward_order,
           {.doc = "what backward prefetches go back over: the forward of this micro_batch | of all passes "
                   "since_backward | since_step (as FSDP2, evaluations too: it may gather in vain)",
            .choices = {"micro_batch", "since_backward", "since_step"}});
  return table;
}

Table mesh_table(Job::Mesh& mesh) {
  Table table("mesh", "The ranks, and how they talk.");
  table
      .key("ranks", &mesh.ranks,
           {.doc = "0 = what mpirun, srun or torchrun started, else 1", .min = 0, .max = kMostRanks})
      .key("device", &mesh.device, {.doc = "cpu | cuda", .choices = {"cpu", "cuda"}})
      .key("communicator", &mesh.communicator,
           {.doc = "threads | mpi | nccl | shared_device", .choices = {"threads", "mpi", "nccl", "shared_device"}})
      .key("ranks_per_node", &mesh.ranks_per_node, {.doc = "0 = all of them", .min = 0, .max = kMostRanks})
      .key("overlap", &mesh.overlap, {.doc = "a worker thread per rank runs the communication"})
      .key("timeout", &mesh.timeout, {.doc = "seconds that a rank may be waited for", .max = 1e6, .above = 0})
      .key("reduce_order", &mesh.reduce_order,
           {.doc = "tree | native (the library's own order, GPUs only)", .choices = {"tree", "native"}});
  return table;
}

Table precision_table(Job::Precision& precision) {
  Table table("precision", "The number formats. The optimizer's parameters and state are fp32 in any case.");
  table
      .key("param_dtype", &precision.param_dtype,
           {.doc = "fp32 | bf16: what parameters are gathered and computed in", .choices = {"fp32", "bf16"}})
      .key("reduce_dtype", &precision.reduce_dtype,
           {.doc = "fp32 | bf16: what gradients are added in", .choices = {"fp32", "bf16"}});
  return table;
}

Table memory_table(Job::Memory& memory) {
  Table table("memory", "What a rank may hold.");
  table.bytes("budget", &memory.budget,
              {.doc = "per rank, at the predicted peak; a plan above it is refused; 0 = none"});
  return table;
}

Table train_table(Job::Train& train) {
  Table table("train", "The run.");
  table.key("steps", &train.steps, {.doc = "optimizer steps", .min = 0, .max = kMostSteps})
      .key("global_batch", &train.global_batch,
           {.doc = "sequences per step over all ranks: the same job on any number of ranks",
            .min = 1,
            .max = kMostSequences})
      .key("microbatches", &train.microbatches, {.doc = "per rank and step", .min = 1, .max = 1e6})
      .key("seed", &train.seed, {.doc = "of parameters, data order and samples", .min = 0})
      .key("evaluate_every", &train.evaluate_every, {.doc = "steps; 0 = never", .min = 0, .max = kMostSteps})
      .key("divisor", &train.divisor,
           {.doc = "of summed gradients: ranks (times micro-batches) | tokens | none",
            .choices = {"ranks", "tokens", "none"}})
      .key("stop_after_skipped", &train.stop_after_skipped,
           {.doc = "steps in a row whose loss or gradient is not finite: they are skipped, the last one ends the run; "
                   "0 = never",
            .min = 0,
            .max = kMostSteps});
  return table;
}

Table optimizer_table(Job::Optimizer& optimizer) {
  Table table("optimizer", "How parameters move.");
  table
      .key("name", &optimizer.name,
           {.doc = "adamw | sgd | program (its own, handed over in C++)", .choices = {"adamw", "sgd", "program"}})
      .key("lr", &optimizer.lr, {.doc = "the largest learning rate of the schedule", .min = 0})
      .key("betas", &optimizer.betas, {.doc = "adamw", .min = 0, .below = 1})
      .key("eps", &optimizer.eps, {.doc = "adamw", .above = 0})
      .key("momentum", &optimizer.momentum, {.doc = "sgd", .min = 0, .below = 1})
      .key("weight_decay", &optimizer.weight_decay, {.doc = "decoupled, times lr", .min = 0})
      .key("clip_norm", &optimizer.clip_norm, {.doc = "largest global norm of the gradient; 0 = off", .min = 0})
      .key("norm", &optimizer.norm, {.doc = "l2 | inf: which norm", .choices = {"l2", "inf"}});
  return table;
}

Table schedule_table(Job::Schedule& schedule) {
  Table table("optimizer.schedule", "The learning rate over the steps.");
  table.key("name", &schedule.name, {.doc = "constant | cosine", .choices = {"constant", "cosine"}})
      .key("warmup_steps", &schedule.warmup_steps,
           {.doc = "steps over which lr rises from 0", .min = 0, .max = kMostSteps})
      .key("final_ratio", &schedule.final_ratio,
           {.doc = "cosine: lr at the last step, as a part of the largest", .min = 0, .max = 1});
  return table;
}

Table plugins_table(Job::Plugins& plugins) {
  Table table("plugins", "Where strategies are searched, and whose files are loaded.");
  table.key("path", &plugins.path,
            {.doc = "folders searched first, before RESHARD_PLUGIN_PATH and the installed ones",
             .path = PathKind::file,
             .not_empty = true})
      .key("trust", &plugins.trust,
           {.doc = "pinned (only files with a pin) | owner (only files that nobody else could have changed) | any",
            .choices = {"pinned", "owner", "any"}})
      .key("probe", &plugins.probe,
           {.doc = "always | never: load a file in a child process before this one", .choices = {"always", "never"}})
      .key("env_path", &plugins.env_path, {.doc = "search the folders of RESHARD_PLUGIN_PATH, too"})
      .key("manifest", &plugins.manifest,
           {.doc = "file that says what a run was made of; empty: one of its own in ~/.local/state/reshard/runs",
            .path = PathKind::file});
  return table;
}

}  // namespace

Tables job_tables(Job& job) {
  // A table takes what its fields hold for the defaults: so they hold these while it is declared.
  Job given = std::exchange(job, Job());
  Tables tables{strategy_table(job.strategy),
                mesh_table(job.mesh),
                precision_table(job.precision),
                memory_table(job.memory),
                train_table(job.train),
                optimizer_table(job.optimizer),
                schedule_table(job.optimizer.schedule),
                plugins_table(job.plugins)};
  job = std::move(given);
  for (Table& table : tables)
    for (const std::string& key : table.keys()) table.came_from(key, job.where(table.name() + "." + key));
  return tables;
}

Table variant_table(Job::Variant& variant) {
  Table table("strategy.variant", "A strategy with other options under a name of its own: one more arm for `compare`.");
  table.key("name", &variant.name, {.doc = "what --strategy and --strategies call it", .not_empty = true})
      .key("plugin", &variant.plugin,
           {.doc = "a name or the path of a .so", .path = PathKind::plugin, .not_empty = true});
  return table;
}

Table switch_table(Job::Switch& change) {
  Table table("strategy.switch", "Another strategy from a step on.");
  table.key("at_step", &change.at_step, {.doc = "after so many finished steps", .min = 1, .max = kMostSteps})
      .key("plugin", &change.plugin,
           {.doc = "a name or the path of a .so", .path = PathKind::plugin, .not_empty = true});
  return table;
}

Table group_table(Job::Group& group) {
  Table table("optimizer.group", "Parameters whose learning rate or decay is their own.");
  table.key("match", &group.match, {.doc = "a parameter's name or a glob: \"*.bias\"", .not_empty = true})
      .key("lr_scale", &group.lr_scale, {.doc = "times lr", .min = 0})
      .key("weight_decay", &group.weight_decay, {.doc = "in place of [optimizer] weight_decay", .min = 0});
  return table;
}

Table pin_table(Job::Pin& pin) {
  Table table("plugins.pin", "Which bytes a strategy's file may have.");
  table.key("name", &pin.name, {.doc = "the strategy's name", .not_empty = true})
      .key("sha256", &pin.sha256, {.doc = "of the file, as `plugins pin NAME` prints it", .not_empty = true});
  return table;
}

namespace {

// Why a variant's name cannot be typed where strategies are named; empty where it can.
std::string unusable(const std::string& name) {
  const auto blank = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7F'; };
  if (std::any_of(name.begin(), name.end(), blank)) return "holds a blank or a control character";
  if (name.find(',') != std::string::npos) return "holds a comma, which separates the names of --strategies";
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return "reads as the path of a file";
  if (name.starts_with("-")) return "reads as an option of the command line";
  return "";
}

}  // namespace

void check_lists(const Job& job) {
  for (const Job::Pin& pin : job.plugins.pins) {
    const bool digits = pin.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (pin.sha256.size() == 64 && digits) continue;
    throw Error(ErrorCode::config,
                fmt::format("the pin of \"{}\" has the sha256 \"{}\", which is not 64 digits of 0-9 and a-f", pin.name,
                            pin.sha256),
                pin.where, fmt::format("copy what `plugins pin {}` prints", pin.name));
  }
  const std::vector<Job::Variant>& variants = job.strategy.variants;
  for (auto at = variants.begin(); at != variants.end(); ++at) {
    if (const std::string why = unusable(at->name); !why.empty())
      throw Error(ErrorCode::config, fmt::format("the variant's name {} {}", quoted_text(at->name), why), at->where,
                  "name it with letters, digits, \"_\", \"-\" and \".\"");
    const auto same = [at](const Job::Variant& other) { return other.name == at->name; };
    if (const auto first = std::find_if(variants.begin(), at, same); first != at)
      throw Error(ErrorCode::config, fmt::format("two variants have the name {}", quoted_text(at->name)), at->where,
                  first->where.empty() ? "" : fmt::format("the other one is at {}", first->where));
  }
  const std::vector<Job::Switch>& switches = job.strategy.switches;
  for (std::size_t i = 1; i < switches.size(); ++i)
    if (switches[i].at_step <= switches[i - 1].at_step)
      throw Error(ErrorCode::config,
                  fmt::format("strategy.switch.at_step must rise from entry to entry, but {} comes after {}",
                              switches[i].at_step, switches[i - 1].at_step),
                  switches[i].where, "write the entries in the order of their steps");
}

}  // namespace reshard::config
