/* It answers for a unit that there may not be. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_decision decision = {sizeof decision, RESHARD_SET_AFTER_FORWARD, RESHARD_KEEP, 0, 0, 0, 0, 0};
  const reshard_text none = {0, 0};
  return plan->set_unit(plan->context, problem->ranks == 4 ? 3 : 0, &decision, none, error);
}
#define DECIDE decide
#define NAME "needs_a_child"
#include "../plugins/plain.h"
