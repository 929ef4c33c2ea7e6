#ifndef RESHARD_STRATEGY_HPP
#define RESHARD_STRATEGY_HPP

// Strategies in C++17, over the C table of plugin.h: a plain struct with options and one function,
//
//   struct Mine {
//     uint32_t ahead = 1;                                                    // an option and its default
//     static constexpr reshard::sdk::Field<Mine> options[] = {               // optional: the table that users' TOML
//         {"ahead", &Mine::ahead, 0, 8, "units to gather ahead"}};           // is checked against
//     void decide(const Problem& problem, Plan& plan) const;                 // answers, unit by unit
//   };
//   RESHARD_STRATEGY(Mine, "acme_mine", "1.0.0", "one line for lists")       // once per plugin
//
// decide may run on several instances at once and on any thread; it is const, since all ranks must get the same answers
// from the same problem. It reports failure by throwing: OptionError names an option, ProblemError says that the
// problem cannot be served, any other std::exception is a failure of the strategy. Nothing crosses the C table.
// A strategy that also has `bool feedback(const Feedback&)` is told what each step showed, and may ask to decide anew.
// Header only; needs the standard library alone. What each answer means is told in plugin.h.

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include "strategy_feedback.hpp"
#include "strategy_options.hpp"

// Who made the strategy; a build may define it.
#ifndef RESHARD_VENDOR
#define RESHARD_VENDOR ""
#endif

namespace reshard::sdk::detail {

// Copies as much as fits, cut at a UTF-8 border; returns the bytes copied.
inline uint32_t copy(std::string_view text, char* to, std::size_t room) noexcept {
  std::size_t size = text.size();
  if (size > room) {
    size = room;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  }
  if (size > 0) std::memcpy(to, text.data(), size);
  return static_cast<uint32_t>(size);
}

inline int32_t fail(reshard_error* error, int32_t status, std::string_view text, std::string_view key = {}) noexcept {
  if (error != nullptr && RESHARD_HAS(reshard_error, error, text)) {
    error->code = status;
    error->text_size = copy(text, error->text, sizeof error->text);
    error->key_size = copy(key, error->key, sizeof error->key);
  }
  return status;
}

// Runs `body`; what it throws becomes a status and a text.
template <class Body>
int32_t guarded(reshard_error* error, const Body& body) noexcept {
  try {
    body();
    return RESHARD_OK;
  } catch (const HostRefused& refused) {
    return fail(error, refused.status, {refused.error.text, refused.error.text_size});
  } catch (const OptionError& bad) {
    return fail(error, RESHARD_BAD_OPTION, bad.what(), bad.key());
  } catch (const ProblemError& bad) {
    return fail(error, RESHARD_BAD_PROBLEM, bad.what());
  } catch (const std::bad_alloc&) {
    return fail(error, RESHARD_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& bad) {
    return fail(error, RESHARD_FAILED, bad.what());
  } catch (...) {
    return fail(error, RESHARD_INTERNAL, "an exception that is no std::exception");
  }
}

template <class T>
struct Instance {
  T strategy{};
  const reshard_host* host = nullptr;
};

// The functions of the strategy T, whose descriptor is *descriptor.
template <class T, reshard_strategy* descriptor>
struct Functions {
  // The option table is made here, not by a constructor: loading a strategy runs none of its code.
  static int32_t init(const reshard_host*, reshard_error* error) noexcept {
    return guarded(error, [] {
      static const Table<T> table;
      descriptor->options = table.rows.data();
      descriptor->option_count = static_cast<uint32_t>(table.rows.size());
    });
  }

  static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                        reshard_error* error) noexcept {
    return guarded(error, [&] {
      auto made = std::make_unique<Instance<T>>();
      made->host = host;
      if constexpr (HasOptions<T>::value) {
        for (uint32_t i = 0; i < count; ++i) {
          for (const Field<T>& field : T::options)
            if (field.name() == view(settings[i].name)) field.store(made->strategy, settings[i].value);
        }
      }
      *instance = made.release();
    });
  }

  static void destroy(void* instance) noexcept { delete static_cast<Instance<T>*>(instance); }

  static int32_t decide(void* instance, const reshard_problem* raw_problem, const reshard_plan* raw_plan,
                        reshard_error* error) noexcept {
    return guarded(error, [&] {
      const auto* self = static_cast<const Instance<T>*>(instance);
      const Problem problem(raw_problem);
      Plan plan(raw_plan, self->host);
      self->strategy.decide(problem, plan);
    });
  }

  static int32_t summary(void* instance, const reshard_summary* raw, uint32_t* decide_anew,
                         reshard_error* error) noexcept {
    return guarded(error, [&] {
      if constexpr (HasFeedback<T>::value)
        *decide_anew = static_cast<Instance<T>*>(instance)->strategy.feedback(Feedback(raw)) ? 1 : 0;
      else
        (void)instance, (void)raw, (void)decide_anew;
    });
  }

  static const void* get_extension(reshard_text id) noexcept {
    static const reshard_feedback feedback = {sizeof(reshard_feedback), 0, &Functions::summary};
    return HasFeedback<T>::value && view(id) == RESHARD_FEEDBACK_ID ? &feedback : nullptr;
  }
};

}  // namespace reshard::sdk::detail

// Makes the strategy `Type` the plugin of this shared object. Once, at file scope, with string literals; `name` is the
// file's stem. Not to be written inside a namespace.
#define RESHARD_STRATEGY(Type, name, version, summary)                                      \
  RESHARD_NOTE(name, version, 0)                                                            \
  namespace {                                                                               \
  extern reshard_strategy reshard_descriptor;                                               \
  using ReshardFunctions = ::reshard::sdk::detail::Functions<Type, &reshard_descriptor>;    \
  reshard_strategy reshard_descriptor = {sizeof(reshard_strategy),                          \
                                         0,                                                 \
                                         RESHARD_TEXT(name),                                \
                                         RESHARD_TEXT(version),                             \
                                         RESHARD_TEXT(summary),                             \
                                         nullptr,                                           \
                                         0,                                                 \
                                         sizeof(reshard_option),                            \
                                         &ReshardFunctions::create,                         \
                                         &ReshardFunctions::destroy,                        \
                                         &ReshardFunctions::decide,                         \
                                         &ReshardFunctions::get_extension};                 \
  const reshard_strategy* const reshard_strategies[] = {&reshard_descriptor};               \
  }                                                                                         \
  RESHARD_EXPORT const reshard_entry reshard_plugin_v1 = {RESHARD_MAGIC,                    \
                                                          sizeof(reshard_entry),            \
                                                          RESHARD_ABI_MAJOR,                \
                                                          RESHARD_ABI_MINOR,                \
                                                          0,                                \
                                                          0,                                \
                                                          0,                                \
                                                          RESHARD_TEXT(RESHARD_VENDOR),     \
                                                          RESHARD_TEXT("C++ " __VERSION__), \
                                                          &ReshardFunctions::init,          \
                                                          nullptr,                          \
                                                          reshard_strategies,               \
                                                          1,                                \
                                                          0};

#endif
