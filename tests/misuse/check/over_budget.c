/* It asks for the peak and does not mind it. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance;
  const reshard_decision decision = {sizeof decision, RESHARD_SET_AFTER_FORWARD, RESHARD_KEEP, 0, 0, 0, 0, 0};
  const reshard_text none = {0, 0};
  int64_t peak = 0;
  const int32_t status = plan->set_unit(plan->context, problem->unit_count - 1, &decision, none, error);
  return status != RESHARD_OK ? status : plan->predicted_peak(plan->context, &peak, error);
}
#define DECIDE decide
#define NAME "over_budget"
#include "../plugins/plain.h"
