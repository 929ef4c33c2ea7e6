/* Instances share their options. */
#include <reshard/plugin.h>
static const reshard_option options[] = {{RESHARD_TEXT("ahead"), RESHARD_TEXT("how far"), RESHARD_INTEGER, 0, 0, 8, 0, 0, 0, 0, 0,
                                          {RESHARD_INTEGER, 0, 1, 0, {0, 0}, 0, 0, 0}}};
static int64_t ahead;
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  *instance = &ahead;
  ahead = settings[0].value.integer;
  return RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  const reshard_text none = {0, 0};
  return plan->set_all_reduce(plan->context, ahead == 8, none, error);
}
#define CREATE create
#define DECIDE decide
#define OPTIONS options
#define OPTION_COUNT 1
#define NAME "one_option_for_all"
#include "../plugins/plain.h"
