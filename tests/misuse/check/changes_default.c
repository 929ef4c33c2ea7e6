/* An option's default is another one after an instance was made. */
#include <reshard/plugin.h>
static reshard_option options[] = {{RESHARD_TEXT("ahead"), RESHARD_TEXT("how far"), RESHARD_INTEGER, 0, 0, 8, 0, 0, 0, 0, 0,
                                    {RESHARD_INTEGER, 0, 1, 0, {0, 0}, 0, 0, 0}}};
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  options[0].fallback.integer = 2;
  *instance = options;
  return RESHARD_OK;
}
#define OPTIONS options
#define OPTION_COUNT 1
#define CREATE create
#define NAME "changes_default"
#include "../plugins/plain.h"
