/* What it answers after a step is no legal plan. */
#include <reshard/ext/feedback.h>
#include <string.h>
static int told;
static int32_t summary(void* instance, const reshard_summary* step, uint32_t* decide_anew, reshard_error* error) {
  (void)instance, (void)step, (void)error;
  *decide_anew = told = 1;
  return RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem;
  const reshard_text none = {0, 0};
  return told ? plan->set_shard_over(plan->context, 3, none, error) : RESHARD_OK;
}

static const reshard_feedback table = {sizeof(reshard_feedback), 0, summary};
static const void* get_extension(reshard_text id) {
  return id.size == sizeof RESHARD_FEEDBACK_ID - 1 && memcmp(id.data, RESHARD_FEEDBACK_ID, id.size) == 0 ? &table : NULL;
}
#define GET_EXTENSION get_extension
#define DECIDE decide
#define NAME "illegal_later"
#include "../plugins/plain.h"
