/* Every other instance answers in another way. */
#include <reshard/plugin.h>
static int64_t numbers[1000];
static int made;
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  made = (made + 1) % 1000;
  numbers[made] = made;
  *instance = &numbers[made];
  return RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return plan->set_all_reduce(plan->context, *(const int64_t*)instance % 2 != 0, none, error);
}
#define CREATE create
#define DECIDE decide
#define NAME "counts_instances"
#include "../plugins/plain.h"
