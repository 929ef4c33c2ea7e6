/* It knows its instance on one thread alone. */
#include <reshard/plugin.h>
static _Thread_local int mine;
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  static char stateless;
  *instance = &stateless;
  mine = 1;
  return RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return plan->set_all_reduce(plan->context, mine != 0, none, error);
}
#define CREATE create
#define DECIDE decide
#define NAME "one_thread"
#include "../plugins/plain.h"
