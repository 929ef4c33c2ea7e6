/* It cannot be asked on two threads at once. */
#include <reshard/plugin.h>
#include <sched.h>
static volatile int inside;
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  const int beside = inside;
  inside = 1;
  for (int i = 0; i < 20; ++i) sched_yield();
  inside = 0;
  return plan->set_all_reduce(plan->context, beside != 0, none, error);
}
#define DECIDE decide
#define NAME "not_at_once"
#include "../plugins/plain.h"
