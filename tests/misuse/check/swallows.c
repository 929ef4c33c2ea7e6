/* It passes on no refusal. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  plan->set_all_reduce(plan->context, 0, none, error);
  return RESHARD_OK;
}
#define DECIDE decide
#define NAME "swallows"
#include "../plugins/plain.h"
