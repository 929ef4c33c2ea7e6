#ifndef RESHARD_EXT_FEEDBACK_H
#define RESHARD_EXT_FEEDBACK_H

/*
 * Extension "reshard.feedback/1": after each step the host tells a strategy what the step showed, and the strategy may
 * ask to decide anew before the next one. A strategy offers it by returning a reshard_feedback from its get_extension.
 *
 * Every rank's instance is told the same: times are the maximum over the ranks, exchanged before a strategy sees them.
 * With it, decide is a pure function of the settings, the problem and the summaries that the instance has been given,
 * in their order; all ranks compare the plans that come of it. A new plan is adopted between two steps, as at a switch
 * of strategies; [memory] budget and the user's overrides hold for it as for the first.
 *
 * An instance is told of the steps under its own plans alone. For a strategy that does not offer this nothing is
 * exchanged after a step.
 */

#include <reshard/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RESHARD_FEEDBACK_ID "reshard.feedback/1"

/* Places in reshard_summary::peak_bytes. */
enum {
  RESHARD_SHARDED_PARAMETERS = 0,
  RESHARD_WHOLE_PARAMETERS = 1,
  RESHARD_GRADIENTS = 2,
  RESHARD_REDUCE_BUFFERS = 3,
  RESHARD_OPTIMIZER_STATE = 4,
  RESHARD_ACTIVATIONS = 5,
  RESHARD_MEMORY_CATEGORIES = 6
};

/* Of one unit, in one step. Seconds are those that the slowest rank's compute waited, 0 where all was hidden. */
typedef struct reshard_unit_summary {
  double exposed_gather_forward;  /* for gathers in forward passes */
  double exposed_gather_backward; /* for gathers inside backward, recomputation included: what keeping it would save */
  double exposed_reduce;          /* for its gradients, all-reduces between replicas included */
  uint32_t gathers;               /* of this rank, which are those of every rank */
  uint32_t reserved;
} reshard_unit_summary;

enum {
  RESHARD_STEP_SKIPPED = 1, /* nothing was updated */
  RESHARD_STEP_FIRST = 2    /* the first under this plan: memory is still made, and the order not known yet */
};

/* Of one step that has ended. Valid during the call. */
typedef struct reshard_summary {
  uint32_t struct_size;
  uint32_t flags;                                /* RESHARD_STEP_… */
  uint64_t step;                                 /* counted from 0 over the whole run */
  double seconds;                                /* from its begin to its end, of the slowest rank */
  double seconds_exposed;                        /* of all communication, the largest of any rank */
  int64_t peak_bytes[RESHARD_MEMORY_CATEGORIES]; /* of the fullest rank at its peak, since this plan was adopted */
  const reshard_unit_summary* units;             /* in the order of the problem's units */
  uint32_t unit_count;
  uint32_t unit_size; /* bytes from one unit to the next. See reshard_unit_summary_at. */
} reshard_summary;

static inline const reshard_unit_summary* reshard_unit_summary_at(const reshard_summary* summary, uint32_t index) {
  return (const reshard_unit_summary*)(const void*)((const char*)summary->units + (size_t)index * summary->unit_size);
}

typedef struct reshard_feedback {
  uint32_t struct_size;
  uint32_t reserved;
  /* [serial] Told after every step, but not after one whose gradients are carried over to the next update: a plan is
   * not changed there. Sets *decide_anew to 1 to be asked again before the next step; it is 0 at first. */
  int32_t (*summary)(void* instance, const reshard_summary* summary, uint32_t* decide_anew, reshard_error* error);
} reshard_feedback;

#ifdef __cplusplus
}
#endif

/* The layout, asserted as plugin_layout.h does. These lines are never edited. */
#ifdef __cplusplus
#define RESHARD_EXT_CHECK(condition) static_assert(condition, "an extension's layout must not change")
#else
#define RESHARD_EXT_CHECK(condition) _Static_assert(condition, "an extension's layout must not change")
#endif
#define RESHARD_EXT_AT(type, member, offset) RESHARD_EXT_CHECK(offsetof(type, member) == (offset))
#define RESHARD_EXT_SIZE(type, size) RESHARD_EXT_CHECK(sizeof(type) == (size))
RESHARD_EXT_AT(reshard_unit_summary, exposed_gather_forward, 0);
RESHARD_EXT_AT(reshard_unit_summary, exposed_gather_backward, 8);
RESHARD_EXT_AT(reshard_unit_summary, exposed_reduce, 16);
RESHARD_EXT_AT(reshard_unit_summary, gathers, 24);
RESHARD_EXT_AT(reshard_unit_summary, reserved, 28);
RESHARD_EXT_SIZE(reshard_unit_summary, 32);
RESHARD_EXT_AT(reshard_summary, struct_size, 0);
RESHARD_EXT_AT(reshard_summary, flags, 4);
RESHARD_EXT_AT(reshard_summary, step, 8);
RESHARD_EXT_AT(reshard_summary, seconds, 16);
RESHARD_EXT_AT(reshard_summary, seconds_exposed, 24);
RESHARD_EXT_AT(reshard_summary, peak_bytes, 32);
RESHARD_EXT_AT(reshard_summary, units, 80);
RESHARD_EXT_AT(reshard_summary, unit_count, 88);
RESHARD_EXT_AT(reshard_summary, unit_size, 92);
RESHARD_EXT_SIZE(reshard_summary, 96);
RESHARD_EXT_AT(reshard_feedback, struct_size, 0);
RESHARD_EXT_AT(reshard_feedback, reserved, 4);
RESHARD_EXT_AT(reshard_feedback, summary, 8);
RESHARD_EXT_SIZE(reshard_feedback, 16);
#undef RESHARD_EXT_SIZE
#undef RESHARD_EXT_AT
#undef RESHARD_EXT_CHECK

#endif
