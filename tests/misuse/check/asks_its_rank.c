/* It answers by its rank. */
#include <reshard/plugin.h>
#include <stdlib.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  const char* const rank = getenv("RANK");
  return plan->set_all_reduce(plan->context, rank != 0 && atoi(rank) > 0, none, error);
}
#define DECIDE decide
#define NAME "asks_its_rank"
#include "../plugins/plain.h"
