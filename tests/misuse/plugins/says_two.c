/* Not broken: its function has a name that others have, too, and decide must reach its own. */
#include <reshard/plugin.h>
uint32_t shared_helper(void);
uint32_t shared_helper(void) {
  return 2;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem;
  return plan->set_shard_over(plan->context, shared_helper(), (reshard_text)RESHARD_TEXT(""), error);
}
#define DECIDE decide
#define NAME "says_two"
#include "plain.h"
