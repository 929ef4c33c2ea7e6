/* Option `fault`: which bad answer decide gives. It swallows every refusal and reports success. */
#include <reshard/plugin.h>
#include <string.h>
static const reshard_option options[] = {
    {RESHARD_TEXT("fault"),
     RESHARD_TEXT("which"),
     RESHARD_INTEGER,
     RESHARD_OPTION_REQUIRED,
     0,
     99,
     0,
     0,
     NULL,
     0,
     0,
     {0, 0, 0, 0, {NULL, 0}, NULL, 0, 0}},
};
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  static int64_t slots[100];
  (void)host, (void)count, (void)error;
  slots[settings[0].value.integer] = settings[0].value.integer;
  *instance = &slots[settings[0].value.integer];
  return RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  const reshard_text reason = RESHARD_TEXT("why not");
  reshard_decision decision = {sizeof decision, 31, RESHARD_FREE, 0, RESHARD_FREE, RESHARD_EACH, 1, 1};
  uint32_t unit = 1;
  switch (*(const int64_t*)instance) {
    case 0: unit = problem->unit_count; break;
    case 1: decision.after_forward = 9; break;
    case 2: decision.after_forward = RESHARD_SHRINK; break;
    case 3: decision.after_backward = RESHARD_SHRINK; break;
    case 4: decision.reduce = 2; break;
    case 5: decision.prefetch_forward = 9; break;
    case 6: decision.prefetch_backward = UINT32_MAX; break;
    case 7: decision.set = 0x40; break;
    case 8: decision.struct_size = 8; break;
    case 9: plan->set_unit(plan->context, unit, &decision, reason, error); break;
    case 10: plan->set_shard_over(plan->context, UINT32_MAX, reason, error); break;
    case 11:
      plan->set_shard_over(plan->context, 1, reason, NULL), plan->set_shard_over(plan->context, 1, reason, NULL);
      break;
    case 12: plan->set_all_reduce(plan->context, 2, reason, error); break;
    case 13:
      plan->set_all_reduce(plan->context, 0, reason, NULL), plan->set_all_reduce(plan->context, 0, reason, NULL);
      break;
    case 14: plan->clear(plan->context, 77, error); break;
    case 15: plan->predicted_peak(plan->context, NULL, error); break;
    case 16: plan->set_unit(plan->context, 2, NULL, reason, error); break;
    default: break;
  }
  plan->set_unit(plan->context, unit, &decision, reason, error);
  return RESHARD_OK;
}
#define NAME "bad_answers"
#define OPTIONS options
#define OPTION_COUNT 1
#define CREATE create
#define DECIDE decide
#include "plain.h"
