/* It fails without a budget. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  return problem->budget_bytes == 0 && problem->ranks == 8 ? RESHARD_INTERNAL : RESHARD_OK;
}
#define DECIDE decide
#define NAME "needs_budget"
#include "../plugins/plain.h"
