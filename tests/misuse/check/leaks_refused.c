/* A create that fails leaves memory behind. */
#include <reshard/plugin.h>
#include <stdlib.h>
static const reshard_option options[] = {{RESHARD_TEXT("ahead"), RESHARD_TEXT("how far"), RESHARD_INTEGER, 0, 0, 8, 0, 0, 0, 0, 0,
                                          {RESHARD_INTEGER, 0, 1, 0, {0, 0}, 0, 0, 0}}};
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  static void* volatile kept;
  (void)kept;
  static char stateless;
  *instance = &stateless;
  if (settings[0].value.integer == 8) {
    kept = malloc(100);
    *instance = 0;
    return RESHARD_BAD_OPTION;
  }
  return RESHARD_OK;
}
#define CREATE create
#define OPTIONS options
#define OPTION_COUNT 1
#define NAME "leaks_refused"
#include "../plugins/plain.h"
