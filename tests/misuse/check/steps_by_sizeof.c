/* It steps through units by their size in its own header. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_decision decision = {sizeof decision, RESHARD_SET_AFTER_FORWARD, RESHARD_KEEP, 0, 0, 0, 0, 0};
  for (uint32_t i = 0; i < problem->unit_count; ++i) {
    const reshard_text none = {0, 0};
    const int32_t status = problem->units[i].bytes == 65536 ? plan->set_unit(plan->context, i, &decision, none, error) : 0;
    if (status != RESHARD_OK) return status;
  }
  return RESHARD_OK;
}
#define DECIDE decide
#define NAME "steps_by_sizeof"
#include "../plugins/plain.h"
