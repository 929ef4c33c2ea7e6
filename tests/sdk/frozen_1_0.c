/* Built against the headers in abi_1_0 for ever: keeps units below its option, and after the first step half of that. */
#include <reshard/ext/feedback.h>
#include <stdlib.h>
#include <string.h>

struct instance {
  int64_t below;
};

static const reshard_option options[] = {
    {.name = RESHARD_TEXT("below"),
     .doc = RESHARD_TEXT("units of fewer bytes are kept"),
     .type = RESHARD_BYTES,
     .integer_min = 0,
     .integer_max = INT64_MAX,
     .fallback = {.type = RESHARD_BYTES, .integer = 4096}},
};

static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)error;
  return host->abi_major == RESHARD_ABI_MAJOR ? RESHARD_OK : RESHARD_FAILED;
}

static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  struct instance* made = malloc(sizeof *made);
  (void)host, (void)error;
  if (made == NULL) return RESHARD_OUT_OF_MEMORY;
  made->below = count == 1 ? settings[0].value.integer : -1;
  *instance = made;
  return RESHARD_OK;
}

static void destroy(void* instance) {
  free(instance);
}

static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  const struct instance* self = instance;
  for (uint32_t i = 0; i < problem->unit_count; ++i) {
    const reshard_decision decision = {
        .struct_size = sizeof decision,
        .set = RESHARD_SET_AFTER_FORWARD,
        .after_forward = reshard_unit_at(problem, i)->bytes < self->below ? RESHARD_KEEP : RESHARD_FREE,
    };
    const int32_t status = plan->set_unit(plan->context, i, &decision, (reshard_text)RESHARD_TEXT("as in 1.0"), error);
    if (status != RESHARD_OK) return status;
  }
  return RESHARD_OK;
}

static int32_t summary(void* instance, const reshard_summary* step, uint32_t* decide_anew, reshard_error* error) {
  struct instance* self = instance;
  (void)error;
  if (step->step != 0) return RESHARD_OK;
  self->below /= 2;
  *decide_anew = 1;
  return RESHARD_OK;
}
static const reshard_feedback feedback = {sizeof feedback, 0, summary};

static const void* get_extension(reshard_text id) {
  return id.size == sizeof RESHARD_FEEDBACK_ID - 1 && memcmp(id.data, RESHARD_FEEDBACK_ID, id.size) == 0 ? &feedback
                                                                                                         : NULL;
}

static const reshard_strategy strategy = {
    .struct_size = sizeof strategy,
    .name = RESHARD_TEXT("frozen_1_0"),
    .version = RESHARD_TEXT("1.0.0"),
    .summary = RESHARD_TEXT("built with the headers of ABI 1.0"),
    .options = options,
    .option_count = 1,
    .option_size = sizeof options[0],
    .create = create,
    .destroy = destroy,
    .decide = decide,
    .get_extension = get_extension,
};
static const reshard_strategy* const strategies[] = {&strategy};

RESHARD_EXPORT const reshard_entry reshard_plugin_v1;
const reshard_entry reshard_plugin_v1 = {
    .magic = RESHARD_MAGIC,
    .struct_size = sizeof(reshard_entry),
    .abi_major = RESHARD_ABI_MAJOR,
    .abi_minor = RESHARD_ABI_MINOR,
    .init = init,
    .strategies = strategies,
    .strategy_count = 1,
};

RESHARD_NOTE("frozen_1_0", "1.0.0", 0)
