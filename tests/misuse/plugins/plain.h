/* A whole strategy in C, right in every respect but what a plugin defines before it includes this file. */
#include <reshard/plugin.h>
#include <string.h>

#ifndef REQUIRED_MINOR
#define REQUIRED_MINOR 0
#endif
#ifndef INIT
#define INIT NULL
#endif
#ifndef DEINIT
#define DEINIT NULL
#endif
#ifndef SUMMARY
#define SUMMARY RESHARD_TEXT("breaks one rule")
#endif
#ifndef ENTRY_MINOR
#define ENTRY_MINOR RESHARD_ABI_MINOR
#endif
#ifndef ENTRY_RESERVED
#define ENTRY_RESERVED 0
#endif
#ifndef OPTIONS
#define OPTIONS NULL
#define OPTION_COUNT 0
#endif
#ifndef CREATE
static int32_t plain_create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                            reshard_error* error) {
  static char stateless;
  (void)host, (void)settings, (void)count, (void)error;
  *instance = &stateless;
  return RESHARD_OK;
}
#define CREATE plain_create
#endif
#ifndef DECIDE
static int32_t plain_decide(void* instance, const reshard_problem* problem, const reshard_plan* plan,
                            reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  return RESHARD_OK;
}
#define DECIDE plain_decide
#endif

#ifndef DESTROY
static void plain_destroy(void* instance) {
  (void)instance;
}
#define DESTROY plain_destroy
#endif
#ifndef GET_EXTENSION
#define GET_EXTENSION NULL
#endif

static const reshard_strategy strategy = {sizeof(reshard_strategy),
                                          0,
                                          RESHARD_TEXT(NAME),
                                          RESHARD_TEXT("1.0.0"),
                                          SUMMARY,
                                          OPTIONS,
                                          OPTION_COUNT,
                                          sizeof(reshard_option),
                                          CREATE,
                                          DESTROY,
                                          DECIDE,
                                          GET_EXTENSION};
static const reshard_strategy* const strategies[] = {&strategy};

RESHARD_EXPORT const reshard_entry reshard_plugin_v1;
const reshard_entry reshard_plugin_v1 = {RESHARD_MAGIC,
                                         sizeof(reshard_entry),
                                         RESHARD_ABI_MAJOR,
                                         ENTRY_MINOR,
                                         REQUIRED_MINOR,
                                         ENTRY_RESERVED,
                                         0,
                                         RESHARD_TEXT("tests"),
                                         RESHARD_TEXT("C"),
                                         INIT,
                                         DEINIT,
                                         strategies,
                                         1,
                                         0};

RESHARD_NOTE(NAME, "1.0.0", REQUIRED_MINOR)
