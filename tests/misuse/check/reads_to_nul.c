/* It reads names to a NUL. */
#include <reshard/plugin.h>
#include <string.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_decision decision = {sizeof decision, RESHARD_SET_AFTER_FORWARD, RESHARD_KEEP, 0, 0, 0, 0, 0};
  const reshard_text none = {0, 0};
  if (strcmp(problem->units[0].name.data, "root") != 0) return RESHARD_OK;
  return plan->set_unit(plan->context, 0, &decision, none, error);
}
#define DECIDE decide
#define NAME "reads_to_nul"
#include "../plugins/plain.h"
