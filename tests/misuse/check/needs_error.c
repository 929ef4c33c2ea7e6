/* It writes where there is no error buffer. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  error->code = 0;
  return RESHARD_OK;
}
#define DECIDE decide
#define NAME "needs_error"
#include "../plugins/plain.h"
