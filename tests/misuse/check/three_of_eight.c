/* It shards over three ranks. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return plan->set_shard_over(plan->context, problem->ranks == 8 ? 3 : 0, none, error);
}
#define DECIDE decide
#define NAME "three_of_eight"
#include "../plugins/plain.h"
