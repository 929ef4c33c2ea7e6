#pragma once

// The core's own tables, declared on a job's fields in the same way as a program declares its tables.

#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::config {

// The most ranks that any key of a job may name.
inline constexpr int kMostRanks = 65536;

// [strategy], [mesh], [precision], [memory], [train], [optimizer], [optimizer.schedule], [plugins], bound to `job`, which must stay
// where it is while they live. The places of the keys are those of job.places.
Tables job_tables(Job& job);

// One entry of [[strategy.variant]] or [[strategy.switch]], its options apart.
Table variant_table(Job::Variant& variant);
Table switch_table(Job::Switch& change);

// One entry of [[optimizer.group]], of [[plugins.pin]].
Table group_table(Job::Group& group);
Table pin_table(Job::Pin& pin);

// What no single key shows: variants of one name, switches that do not rise, pins that are no hashes. Throws
// Error(config).
void check_lists(const Job& job);

}  // namespace reshard::config
