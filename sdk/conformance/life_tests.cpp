// life.*: init, create, destroy, deinit, in the orders and numbers that hosts call them.

#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"

namespace reshard::conformance {
namespace {

std::string ask(const Subject& subject, const Settings& settings) {
  const Problem problem = ordinary();
  return answers_text(problem, Instance(subject, settings).decide(problem));
}

void init_again(const Trial& trial) {
  Subject subject(trial);
  const std::string before = ask(subject, subject.defaults());
  for (int i = 0; i < 3; ++i) {
    subject.deinit();
    subject.init();
    if (const std::string after = ask(subject, subject.defaults()); after != before)
      fail(fmt::format("after the first and a later init it answers {}", difference(before, after)));
  }
}

void many_inits(const Trial& trial) {
  Subject subject(trial);
  check_growth(500, "deinit and init", [&] {
    subject.deinit();
    subject.init();
  });
}

void many_instances(const Trial& trial) {
  const Subject subject(trial);
  const Settings settings = subject.defaults();
  check_growth(1000, "making an instance and ending it", [&] { const Instance instance(subject, settings); });
}

// Settings under which create fails; those that only decide refuses do not count.
std::vector<Variant> refused(const Subject& subject) {
  std::vector<Variant> found;
  for (const Vary vary : {Vary::ends, Vary::texts, Vary::lists})
    for (Variant& variant : variants(subject, vary)) {
      void* instance = nullptr;
      if (subject.create(variant.settings, &instance).status != RESHARD_OK)
        found.push_back(std::move(variant));
      else
        subject.destroy(instance);
    }
  return found;
}

void refused_create(const Trial& trial) {
  const Subject subject(trial);
  const std::vector<Variant> all = refused(subject);
  if (all.empty()) skip("create refuses no setting");
  check_growth(500, "create that fails", [&] {
    for (const Variant& variant : all) {
      void* instance = nullptr;
      subject.create(variant.settings, &instance);
    }
  });
}

// One variant that is answered in another way than the defaults are.
Settings other_settings(const Subject& subject) {
  const std::string usual = ask(subject, subject.defaults());
  for (const Vary vary : {Vary::ends, Vary::choices, Vary::texts, Vary::lists})
    for (const Variant& variant : variants(subject, vary)) {
      void* instance = nullptr;
      if (subject.create(variant.settings, &instance).status != RESHARD_OK) continue;
      const Problem problem = ordinary();
      const Result result = subject.decide(instance, problem);
      subject.destroy(instance);
      if (answers_text(problem, result) != usual) return variant.settings;
    }
  return subject.defaults();
}

void two_instances(const Trial& trial) {
  const Subject subject(trial);
  const Settings settings[] = {subject.defaults(), other_settings(subject)};
  const std::string alone[] = {ask(subject, settings[0]), ask(subject, settings[1])};
  const Instance first(subject, settings[0]), second(subject, settings[1]);
  const Problem problem = ordinary();
  for (int i = 0; i < 3; ++i)
    for (const int which : {0, 1}) {
      const std::string beside = answers_text(problem, (which == 0 ? first : second).decide(problem));
      if (beside != alone[which])
        fail(fmt::format("alone and beside another instance it answers {}", difference(alone[which], beside)));
    }
}

void order_of_destroy(const Trial& trial) {
  const Subject subject(trial);
  const Settings settings = subject.defaults();
  const std::string usual = ask(subject, settings);
  const Problem problem = ordinary();
  for (const std::size_t gone : {0U, 1U, 2U}) {
    std::vector<std::unique_ptr<Instance>> all;
    for (int i = 0; i < 3; ++i) all.push_back(std::make_unique<Instance>(subject, settings));
    all[gone].reset();
    for (const auto& instance : all) {
      if (!instance) continue;
      const std::string left = answers_text(problem, instance->decide(problem));
      if (left != usual)
        fail(fmt::format("before and after another instance's end it answers {}", difference(usual, left)));
    }
  }
}

void any_thread(const Trial& trial) {
  const Subject subject(trial);
  const Settings settings = subject.defaults();
  const std::string usual = ask(subject, settings);
  std::string other;
  std::unique_ptr<Instance> instance;
  const auto elsewhere = [](const auto& body) {
    std::exception_ptr failure;
    std::thread([&] {
      try {
        body();
      } catch (...) {
        failure = std::current_exception();
      }
    }).join();
    if (failure) std::rethrow_exception(failure);
  };
  const Problem problem = ordinary();
  elsewhere([&] { instance = std::make_unique<Instance>(subject, settings); });
  elsewhere([&] { other = answers_text(problem, instance->decide(problem)); });
  elsewhere([&] { instance.reset(); });
  if (other != usual) fail(fmt::format("on one thread and on several it answers {}", difference(usual, other)));
}

constexpr Test kTests[] = {
    {"life.init_again", "after deinit, init works again and changes no answer", Level::quick, Gate::no, init_again},
    {"life.many_inits", "init and deinit leave nothing behind", Level::full, Gate::no, many_inits},
    {"life.many_instances", "an instance leaves nothing behind when it ends", Level::quick, Gate::no, many_instances},
    {"life.refused_create", "a create that fails leaves no instance and nothing else", Level::full, Gate::no,
     refused_create},
    {"life.two_instances", "instances with different options do not meet", Level::quick, Gate::no, two_instances},
    {"life.order_of_destroy", "instances end in any order", Level::full, Gate::no, order_of_destroy},
    {"life.any_thread", "create, decide and destroy work on different threads", Level::full, Gate::no, any_thread},
};

}  // namespace

std::span<const Test> life_tests() {
  return kTests;
}

}  // namespace reshard::conformance
