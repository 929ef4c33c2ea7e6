/* A refusal leaves memory behind. */
#include <reshard/plugin.h>
#include <stdlib.h>
static void* volatile kept;
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  const int32_t status = plan->set_all_reduce(plan->context, 0, none, error);
  if (status != RESHARD_OK) kept = malloc(100);
  return status;
}
#define DECIDE decide
#define NAME "leaks_when_refused"
#include "../plugins/plain.h"
