/* It fails for a thousand ranks. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return problem->ranks == 1000 ? RESHARD_INTERNAL : plan->set_all_reduce(plan->context, 0, none, error);
}
#define DECIDE decide
#define NAME "thousand_ranks"
#include "../plugins/plain.h"
