/* It has room for few units. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  return problem->unit_count > 1000 ? RESHARD_OUT_OF_MEMORY : RESHARD_OK;
}
#define DECIDE decide
#define NAME "few_units"
#include "../plugins/plain.h"
