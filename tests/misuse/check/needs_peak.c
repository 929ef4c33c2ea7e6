/* It fails where the peak is unknown. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  int64_t peak = 0;
  const int32_t status = plan->predicted_peak(plan->context, &peak, error);
  return status != RESHARD_OK ? status : peak < 0 ? RESHARD_INTERNAL : RESHARD_OK;
}
#define DECIDE decide
#define NAME "needs_peak"
#include "../plugins/plain.h"
