/* Every other answer is another one. */
#include <reshard/plugin.h>
static int asked;
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return plan->set_all_reduce(plan->context, ++asked % 2, none, error);
}
#define DECIDE decide
#define NAME "takes_turns"
#include "../plugins/plain.h"
