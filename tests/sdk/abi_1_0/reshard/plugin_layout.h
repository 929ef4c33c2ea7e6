#ifndef RESHARD_PLUGIN_LAYOUT_H
#define RESHARD_PLUGIN_LAYOUT_H

/*
 * The layout of every struct of plugin.h, asserted in whatever language includes it. These lines are never edited: a
 * minor adds the offsets of the members that it appends, and raises the sizes of those structs.
 */

#include "plugin.h"

#ifdef __cplusplus
#define RESHARD_LAYOUT_CHECK(condition) static_assert(condition, "the strategy ABI's layout must not change")
#else
#define RESHARD_LAYOUT_CHECK(condition) _Static_assert(condition, "the strategy ABI's layout must not change")
#endif
#define RESHARD_AT(type, member, offset) RESHARD_LAYOUT_CHECK(offsetof(type, member) == (offset))
#define RESHARD_SIZE(type, size) RESHARD_LAYOUT_CHECK(sizeof(type) == (size))

RESHARD_SIZE(void*, 8);
RESHARD_SIZE(double, 8);

RESHARD_AT(reshard_text, data, 0);
RESHARD_AT(reshard_text, size, 8);
RESHARD_SIZE(reshard_text, 16);

RESHARD_AT(reshard_error, struct_size, 0);
RESHARD_AT(reshard_error, code, 4);
RESHARD_AT(reshard_error, text_size, 8);
RESHARD_AT(reshard_error, key_size, 12);
RESHARD_AT(reshard_error, key, 16);
RESHARD_AT(reshard_error, text, 144);
RESHARD_SIZE(reshard_error, 1168);

RESHARD_AT(reshard_value, type, 0);
RESHARD_AT(reshard_value, given, 4);
RESHARD_AT(reshard_value, integer, 8);
RESHARD_AT(reshard_value, real, 16);
RESHARD_AT(reshard_value, text, 24);
RESHARD_AT(reshard_value, items, 40);
RESHARD_AT(reshard_value, item_count, 48);
RESHARD_AT(reshard_value, reserved, 52);
RESHARD_SIZE(reshard_value, 56);

RESHARD_AT(reshard_setting, name, 0);
RESHARD_AT(reshard_setting, value, 16);
RESHARD_SIZE(reshard_setting, 72);

RESHARD_AT(reshard_host, struct_size, 0);
RESHARD_AT(reshard_host, abi_major, 4);
RESHARD_AT(reshard_host, abi_minor, 6);
RESHARD_AT(reshard_host, name, 8);
RESHARD_AT(reshard_host, version, 24);
RESHARD_AT(reshard_host, context, 40);
RESHARD_AT(reshard_host, log_enabled, 48);
RESHARD_AT(reshard_host, log, 56);
RESHARD_AT(reshard_host, get_extension, 64);
RESHARD_SIZE(reshard_host, 72);

RESHARD_AT(reshard_unit, name, 0);
RESHARD_AT(reshard_unit, parent, 16);
RESHARD_AT(reshard_unit, flags, 20);
RESHARD_AT(reshard_unit, bytes, 24);
RESHARD_AT(reshard_unit, trainable_bytes, 32);
RESHARD_AT(reshard_unit, gradient_bytes, 40);
RESHARD_AT(reshard_unit, flops_forward, 48);
RESHARD_AT(reshard_unit, flops_backward, 56);
RESHARD_AT(reshard_unit, seconds_gather, 64);
RESHARD_SIZE(reshard_unit, 72);

RESHARD_AT(reshard_problem, struct_size, 0);
RESHARD_AT(reshard_problem, ranks, 4);
RESHARD_AT(reshard_problem, ranks_per_node, 8);
RESHARD_AT(reshard_problem, microbatches, 12);
RESHARD_AT(reshard_problem, budget_bytes, 16);
RESHARD_AT(reshard_problem, seed, 24);
RESHARD_AT(reshard_problem, units, 32);
RESHARD_AT(reshard_problem, unit_count, 40);
RESHARD_AT(reshard_problem, unit_size, 44);
RESHARD_SIZE(reshard_problem, 48);

RESHARD_AT(reshard_decision, struct_size, 0);
RESHARD_AT(reshard_decision, set, 4);
RESHARD_AT(reshard_decision, after_forward, 8);
RESHARD_AT(reshard_decision, shrink_ranks, 12);
RESHARD_AT(reshard_decision, after_backward, 16);
RESHARD_AT(reshard_decision, reduce, 20);
RESHARD_AT(reshard_decision, prefetch_forward, 24);
RESHARD_AT(reshard_decision, prefetch_backward, 28);
RESHARD_SIZE(reshard_decision, 32);

RESHARD_AT(reshard_plan, struct_size, 0);
RESHARD_AT(reshard_plan, reserved, 4);
RESHARD_AT(reshard_plan, context, 8);
RESHARD_AT(reshard_plan, set_unit, 16);
RESHARD_AT(reshard_plan, set_shard_over, 24);
RESHARD_AT(reshard_plan, set_all_reduce, 32);
RESHARD_AT(reshard_plan, clear, 40);
RESHARD_AT(reshard_plan, predicted_peak, 48);
RESHARD_SIZE(reshard_plan, 56);

RESHARD_AT(reshard_option, name, 0);
RESHARD_AT(reshard_option, doc, 16);
RESHARD_AT(reshard_option, type, 32);
RESHARD_AT(reshard_option, flags, 36);
RESHARD_AT(reshard_option, integer_min, 40);
RESHARD_AT(reshard_option, integer_max, 48);
RESHARD_AT(reshard_option, real_min, 56);
RESHARD_AT(reshard_option, real_max, 64);
RESHARD_AT(reshard_option, choices, 72);
RESHARD_AT(reshard_option, choice_count, 80);
RESHARD_AT(reshard_option, reserved, 84);
RESHARD_AT(reshard_option, fallback, 88);
RESHARD_SIZE(reshard_option, 144);

RESHARD_AT(reshard_strategy, struct_size, 0);
RESHARD_AT(reshard_strategy, flags, 4);
RESHARD_AT(reshard_strategy, name, 8);
RESHARD_AT(reshard_strategy, version, 24);
RESHARD_AT(reshard_strategy, summary, 40);
RESHARD_AT(reshard_strategy, options, 56);
RESHARD_AT(reshard_strategy, option_count, 64);
RESHARD_AT(reshard_strategy, option_size, 68);
RESHARD_AT(reshard_strategy, create, 72);
RESHARD_AT(reshard_strategy, destroy, 80);
RESHARD_AT(reshard_strategy, decide, 88);
RESHARD_AT(reshard_strategy, get_extension, 96);
RESHARD_SIZE(reshard_strategy, 104);

RESHARD_AT(reshard_entry, magic, 0);
RESHARD_AT(reshard_entry, struct_size, 8);
RESHARD_AT(reshard_entry, abi_major, 12);
RESHARD_AT(reshard_entry, abi_minor, 14);
RESHARD_AT(reshard_entry, required_host_minor, 16);
RESHARD_AT(reshard_entry, reserved, 18);
RESHARD_AT(reshard_entry, flags, 20);
RESHARD_AT(reshard_entry, vendor, 24);
RESHARD_AT(reshard_entry, build, 40);
RESHARD_AT(reshard_entry, init, 56);
RESHARD_AT(reshard_entry, deinit, 64);
RESHARD_AT(reshard_entry, strategies, 72);
RESHARD_AT(reshard_entry, strategy_count, 80);
RESHARD_AT(reshard_entry, reserved2, 84);
RESHARD_SIZE(reshard_entry, 88);

RESHARD_AT(reshard_note, owner_size, 0);
RESHARD_AT(reshard_note, content_size, 4);
RESHARD_AT(reshard_note, type, 8);
RESHARD_AT(reshard_note, owner, 12);
RESHARD_AT(reshard_note, abi_major, 20);
RESHARD_AT(reshard_note, abi_minor, 22);
RESHARD_AT(reshard_note, required_host_minor, 24);
RESHARD_AT(reshard_note, reserved, 26);
RESHARD_AT(reshard_note, name, 28);
RESHARD_AT(reshard_note, version, 92);
RESHARD_SIZE(reshard_note, 124);

#undef RESHARD_SIZE
#undef RESHARD_AT
#undef RESHARD_LAYOUT_CHECK

#endif
