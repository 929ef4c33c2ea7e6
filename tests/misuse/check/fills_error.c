/* It fills an error buffer that is shorter. */
#include <reshard/plugin.h>
#include <string.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  if (error != 0) memset(error->text, 0, sizeof error->text);
  return RESHARD_OK;
}
#define DECIDE decide
#define NAME "fills_error"
#include "../plugins/plain.h"
