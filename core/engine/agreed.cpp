#include "engine/agreed.h"

#include <string_view>

#include <fmt/format.h>

#include "base/fingerprint.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::engine {
namespace {

template <std::size_t Size>
void put(std::string_view text, char (&to)[Size]) {
  text.copy(to, Size - 1);
}

std::string hexadecimal(const base::Fingerprint& fingerprint) {
  return fmt::format("{:016x}", fingerprint.value());
}

std::string fingerprint_of(const PluginIdentity& identity) {
  base::Fingerprint fingerprint;
  for (const auto& [name, value] : identity.options) fingerprint.add(name), fingerprint.add(value);
  return hexadecimal(fingerprint);
}

std::string fingerprint_of(Job job) {
  job.plugins = {};
  base::Fingerprint fingerprint;
  fingerprint.add(print_job(job));
  return hexadecimal(fingerprint);
}

std::string fingerprint_of(const Model& model) {
  base::Fingerprint fingerprint;
  fingerprint.add(fmt::format("{} bytes held", model.held_bytes()));
  for (int u = 0; u < model.unit_count(); ++u) {
    const UnitSpec& spec = model.spec({u});
    fingerprint.add(fmt::format("{} in {}: {} saved, {} and {} FLOPs, {} times, {}, {}, {}", spec.name,
                                model.parent({u}).index, spec.saved_bytes, spec.flops_forward, spec.flops_backward,
                                spec.repeats, spec.param_dtype ? name(*spec.param_dtype) : "job",
                                spec.needs_parameters_in_backward, spec.may_be_unused));
    for (const Parameter& p : spec.parameters) {
      fingerprint.add(fmt::format("{} as {}, {} {} {} {} {}", p.name, p.same_as, p.decay, p.lr_scale, p.trainable, p.block,
                                  p.shape.size()));
      for (const int64_t extent : p.shape) fingerprint.add(std::to_string(extent));
    }
  }
  return hexadecimal(fingerprint);
}

std::string fingerprint_of(const Optimizer& optimizer) {
  base::Fingerprint fingerprint;
  fingerprint.add(optimizer.name());
  for (const std::string& name : optimizer.state_names()) fingerprint.add(name);
  return hexadecimal(fingerprint);
}

struct Fact {
  const char* word;
  const char* (*of)(const Agreed&);
};

constexpr Fact kFacts[] = {
    {"strategy", [](const Agreed& one) { return one.strategy; }},
    {"a plugin file with sha256", [](const Agreed& one) { return one.sha256; }},
    {"strategy ABI", [](const Agreed& one) { return one.abi; }},
    {"options", [](const Agreed& one) { return one.options; }},
    {"plan", [](const Agreed& one) { return one.plan; }},
    {"job", [](const Agreed& one) { return one.job; }},
    {"model", [](const Agreed& one) { return one.model; }},
    {"optimizer", [](const Agreed& one) { return one.optimizer; }},
};

// "strategy zero2 and plan 12ab…": where it differs from `other`.
std::string difference(const Agreed& one, const Agreed& other) {
  std::vector<std::string> parts;
  for (const Fact& fact : kFacts)
    if (std::string_view(fact.of(one)) != fact.of(other))
      parts.push_back(fmt::format("{} {}", fact.word, fact.of(one)));
  return base::list_text(parts);
}

}  // namespace

Agreed agreed_of(const Job& job, const Model& model, const Optimizer& optimizer, const PlannedStrategy& planned) {
  Agreed mine;
  put(planned.name, mine.strategy);
  put(planned.identity.sha256, mine.sha256);
  put(planned.identity.abi, mine.abi);
  put(fingerprint_of(planned.identity), mine.options);
  put(planned.plan.hash(), mine.plan);
  put(fingerprint_of(job), mine.job);
  put(fingerprint_of(model), mine.model);
  put(fingerprint_of(optimizer), mine.optimizer);
  return mine;
}

void check_agreed(std::span<const Agreed> all) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    const std::string differs = difference(all[r], all[0]);
    if (differs.empty()) continue;
    throw Error(ErrorCode::plan, fmt::format("rank {} has {}; rank 0 has {}", r, differs, difference(all[0], all[r])), "",
                "give every rank the same job, model and plugin files");
  }
}

}  // namespace reshard::engine
