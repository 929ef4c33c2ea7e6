// Whether the names in a job are names of something: variants apart from strategies, tables of options for strategies
// that there are, groups of parameters that the model has. Reads the names of files in folders and nothing else.

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/planning.h"
#include "plugin/catalog.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::engine {
namespace {

// The name under which a strategy's options stand: a file's is its stem.
std::string option_name(const std::string& plugin) {
  const bool path = plugin.find('/') != std::string::npos || plugin.ends_with(".so");
  return path ? std::filesystem::path(plugin).stem().string() : plugin;
}

std::set<std::string> named_in(const Job& job) {
  std::set<std::string> names{option_name(job.strategy.plugin)};
  for (const Job::Variant& variant : job.strategy.variants) names.insert(option_name(variant.plugin));
  for (const Job::Switch& change : job.strategy.switches) names.insert(option_name(change.plugin));
  return names;
}

[[noreturn]] void fail_options(const Job& job, const std::string& name, const std::set<std::string>& known) {
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string near = base::nearest(name, names);
  throw Error(
      ErrorCode::config,
      fmt::format("[strategy.options.{}] is for a strategy that is neither installed nor named in this job", name),
      job.where("strategy.options." + name),
      near.empty() ? "the strategies are " + base::list_text(names)
                   : fmt::format("did you mean [strategy.options.{}]?", near));
}

void check_variant(const Job& job, const Job::Variant& variant, const std::vector<std::string>& installed) {
  if (std::binary_search(installed.begin(), installed.end(), variant.name))
    throw Error(ErrorCode::config,
                fmt::format("the variant \"{}\" has the name of an installed strategy", variant.name), variant.where,
                "give the variant a name of its own");
  for (const Job::Variant& other : job.strategy.variants)
    if (variant.plugin == other.name)
      throw Error(ErrorCode::config,
                  fmt::format("the variant \"{}\" has the variant \"{}\" for its plugin", variant.name, other.name),
                  variant.where, "name a strategy or the path of a .so");
  plugin::find(variant.plugin, plugin::search_folders(job.plugins), variant.where);
}

// The optimizer comes to no frozen parameter, and to a tied one by its other name.
void check_trained(const Job::Group& group, const Model& model) {
  const Parameter* idle = nullptr;
  for (const UnitSpec& spec : model.units())
    for (const Parameter& parameter : spec.parameters) {
      if (!base::glob_match(group.match, parameter.name)) continue;
      if (parameter.trainable && parameter.same_as.empty()) return;
      if (idle == nullptr || !parameter.same_as.empty()) idle = &parameter;
    }
  const bool tied = !idle->same_as.empty();
  throw Error(
      ErrorCode::config,
      fmt::format("[[optimizer.group]] match = \"{}\" fits no parameter that is updated: \"{}\" is {}", group.match,
                  idle->name, tied ? fmt::format("another name for \"{}\"", idle->same_as) : "frozen"),
      group.where, tied ? fmt::format("match \"{}\"", idle->same_as) : "leave the entry out");
}

}  // namespace

void check_names(const Job& job) {
  std::set<std::string> known = named_in(job);
  const bool all_known = std::all_of(job.strategy.options.begin(), job.strategy.options.end(),
                                     [&known](const auto& table) { return known.contains(table.first); });
  if (all_known && job.strategy.variants.empty()) return;
  const std::vector<std::string> installed = plugin::installed_names(plugin::search_folders(job.plugins));
  for (const Job::Variant& variant : job.strategy.variants) check_variant(job, variant, installed);
  known.insert(installed.begin(), installed.end());
  known.erase("");  // no strategy is given yet
  for (const auto& [name, options] : job.strategy.options)
    if (!known.contains(name)) fail_options(job, name, known);
}

void check_groups(const Job& job, const Model& model) {
  if (job.optimizer.groups.empty()) return;
  std::vector<std::string> names;
  for (const UnitSpec& spec : model.units())
    for (const Parameter& parameter : spec.parameters) names.push_back(parameter.name);
  for (const Job::Group& group : job.optimizer.groups) {
    if (!group.lr_scale && !group.weight_decay)
      throw Error(ErrorCode::config,
                  fmt::format("[[optimizer.group]] match = \"{}\" sets neither lr_scale nor weight_decay", group.match),
                  group.where, "set one of them, or leave the entry out");
    const auto fits = [&group](const std::string& name) { return base::glob_match(group.match, name); };
    if (std::any_of(names.begin(), names.end(), fits)) {
      check_trained(group, model);
      continue;
    }
    const std::string near = base::nearest(group.match, names);
    throw Error(ErrorCode::config, fmt::format("[[optimizer.group]] match = \"{}\" fits no parameter", group.match),
                group.where,
                near.empty() ? "the model's parameters: " + base::list_text(std::span<const std::string>(names).first(
                                                                std::min<std::size_t>(names.size(), 12)))
                             : fmt::format("did you mean \"{}\"?", near));
  }
}

}  // namespace reshard::engine
