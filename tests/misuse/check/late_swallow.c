/* It swallows a refusal where there are many ranks. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  const int32_t status = plan->set_all_reduce(plan->context, 0, none, error);
  return problem->ranks > 1000 ? RESHARD_OK : status;
}
#define DECIDE decide
#define NAME "late_swallow"
#include "../plugins/plain.h"
