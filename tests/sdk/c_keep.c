/* A strategy in plain C: keeps units in their order as long as the predicted peak stays within the budget; the first
 * that does not fit, and those after it, are shrunk to groups of the node's size. */

#include <reshard/plugin.h>
#include <stdlib.h>
#include <string.h>

struct keep {
  int64_t margin;
};

static const reshard_option options[] = {
    {RESHARD_TEXT("margin"),
     RESHARD_TEXT("bytes of the budget to leave free"),
     RESHARD_BYTES,
     0,
     0,
     INT64_MAX,
     0,
     0,
     NULL,
     0,
     0,
     {RESHARD_BYTES, 0, 0, 0, {NULL, 0}, NULL, 0, 0}},
};

static int32_t fail(reshard_error* error, int32_t status, const char* text) {
  if (error != NULL && RESHARD_HAS(reshard_error, error, text)) {
    error->code = status;
    error->text_size = (uint32_t)strlen(text);
    memcpy(error->text, text, error->text_size);
  }
  return status;
}

static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  struct keep* made = malloc(sizeof *made);
  (void)host;
  if (made == NULL) return fail(error, RESHARD_OUT_OF_MEMORY, "out of memory");
  if (count != 1) return fail(error, RESHARD_INTERNAL, "one setting is expected");
  made->margin = settings[0].value.integer;
  *instance = made;
  return RESHARD_OK;
}

static void destroy(void* instance) {
  free(instance);
}

static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  const struct keep* keep = instance;
  const reshard_text last = RESHARD_TEXT("replicas wait"), fits = RESHARD_TEXT("fits the budget"),
                     full = RESHARD_TEXT("does not fit");
  int32_t status = plan->set_all_reduce(plan->context, RESHARD_LAST, last, error);
  for (uint32_t i = 0; status == RESHARD_OK && i < problem->unit_count; ++i) {
    reshard_decision decision = {sizeof decision, RESHARD_SET_AFTER_FORWARD, RESHARD_KEEP, 0, 0, 0, 0, 0};
    int64_t peak = -1;
    status = plan->set_unit(plan->context, i, &decision, fits, error);
    if (status == RESHARD_OK) status = plan->predicted_peak(plan->context, &peak, error);
    if (status != RESHARD_OK) return status;
    if (peak < 0) return fail(error, RESHARD_BAD_PROBLEM, "it needs to know the peak");
    if (peak + keep->margin <= problem->budget_bytes) continue;
    status = plan->clear(plan->context, i, error);
    decision.after_forward = RESHARD_SHRINK;
    decision.shrink_ranks = problem->ranks_per_node;
    decision.set |= RESHARD_SET_PREFETCH_BACKWARD;
    if (status == RESHARD_OK) status = plan->set_unit(plan->context, i, &decision, full, error);
  }
  return status;
}

static const reshard_strategy strategy = {sizeof(reshard_strategy),
                                          0,
                                          RESHARD_TEXT("c_keep"),
                                          RESHARD_TEXT("0.1.0"),
                                          RESHARD_TEXT("keeps what fits"),
                                          options,
                                          1,
                                          sizeof(reshard_option),
                                          create,
                                          destroy,
                                          decide,
                                          NULL};
static const reshard_strategy* const strategies[] = {&strategy};

RESHARD_EXPORT const reshard_entry reshard_plugin_v1;
const reshard_entry reshard_plugin_v1 = {RESHARD_MAGIC,
                                         sizeof(reshard_entry),
                                         RESHARD_ABI_MAJOR,
                                         RESHARD_ABI_MINOR,
                                         0,
                                         0,
                                         0,
                                         RESHARD_TEXT("tests"),
                                         RESHARD_TEXT("C"),
                                         NULL,
                                         NULL,
                                         strategies,
                                         1,
                                         0};

RESHARD_NOTE("c_keep", "0.1.0", 0)
