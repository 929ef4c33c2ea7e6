#include "engine/optimizers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "optim/adamw.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::engine {

std::unique_ptr<Optimizer> choose_optimizer(const Job& job, std::unique_ptr<Optimizer> own) {
  const Job::Optimizer& settings = job.optimizer;
  if (own != nullptr) {
    if (settings.name == "program") return own;
    throw Error(
        ErrorCode::config,
        "this program hands over the optimizer \"" + own->name() + "\", and the job names \"" + settings.name + "\"",
        job.where("optimizer.name"), "set [optimizer] name = \"program\" to use the program's own");
  }
  if (settings.name == "adamw")
    return std::make_unique<optim::AdamW>(optim::AdamWOptions{.beta1 = settings.betas[0],
                                                              .beta2 = settings.betas[1],
                                                              .eps = settings.eps,
                                                              .weight_decay = settings.weight_decay});
  if (settings.name == "sgd")
    return std::make_unique<optim::Sgd>(
        optim::SgdOptions{.momentum = settings.momentum, .weight_decay = settings.weight_decay});
  throw Error(ErrorCode::config, "this program hands over no optimizer of its own", job.where("optimizer.name"),
              "use \"adamw\" or \"sgd\"");
}

int checked_states(const Optimizer& optimizer) {
  const std::vector<std::string> names = optimizer.state_names();
  if (names.size() > kMostStates)
    throw Error(ErrorCode::model, fmt::format("the optimizer {} names {} state tensors; at most {} are carried",
                                              optimizer.name(), names.size(), kMostStates));
  for (auto name = names.begin(); name != names.end(); ++name) {
    const bool word = !name->empty() && std::none_of(name->begin(), name->end(),
                                                     [](unsigned char c) { return c <= ' ' || c == '.' || c == 0x7F; });
    const bool twice = std::find(names.begin(), name, *name) != name;
    if (!word || twice)
      throw Error(ErrorCode::model,
                  fmt::format("the optimizer {} names {} \"{}\"{}", optimizer.name(),
                              twice ? "two state tensors" : "a state tensor", *name, word ? "" : ", which is no word"),
                  "", "give every one a word of its own, without dots: \"exp_avg\"");
  }
  return static_cast<int>(names.size());
}

ParameterGroup parameter_group(const Job& job, const Parameter& parameter) {
  ParameterGroup group{.lr_scale = parameter.lr_scale, .weight_decay = {}};
  if (!parameter.decay) group.weight_decay = 0.0;
  for (const bool exact : {false, true})
    for (const Job::Group& entry : job.optimizer.groups) {
      if ((entry.match == parameter.name) != exact || !base::glob_match(entry.match, parameter.name)) continue;
      if (entry.lr_scale) group.lr_scale = parameter.lr_scale * *entry.lr_scale;
      if (entry.weight_decay) group.weight_decay = *entry.weight_decay;
    }
  return group;
}

double learning_rate_multiplier(const Job& job, int64_t step) {
  const Job::Schedule& schedule = job.optimizer.schedule;
  return optim::learning_rate_multiplier(
      {.decay = schedule.name == "cosine" ? optim::Decay::cosine : optim::Decay::constant,
       .warmup_steps = schedule.warmup_steps,
       .final_ratio = schedule.final_ratio},
      step, job.train.steps);
}

}  // namespace reshard::engine
