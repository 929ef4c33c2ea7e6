/* Asking leaves memory behind. */
#include <reshard/plugin.h>
#include <stdlib.h>
static void* volatile kept;
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  kept = malloc(100);
  return RESHARD_OK;
}
#define DECIDE decide
#define NAME "leaks"
#include "../plugins/plain.h"
