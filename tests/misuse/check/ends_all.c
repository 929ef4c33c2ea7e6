/* The end of one instance is the end of all. */
#include <reshard/plugin.h>
static int ended;
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  *instance = &ended;
  ended = 0;
  return RESHARD_OK;
}
static void destroy(void* instance) {
  (void)instance;
  ended = 1;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return plan->set_all_reduce(plan->context, ended != 0, none, error);
}
#define CREATE create
#define DECIDE decide
#define DESTROY destroy
#define NAME "ends_all"
#include "../plugins/plain.h"
