/* It refuses an option and does not name it. */
#include <reshard/plugin.h>
#include <string.h>
static const reshard_option options[] = {{RESHARD_TEXT("ahead"), RESHARD_TEXT("how far"), RESHARD_INTEGER, 0, 0, 8, 0, 0, 0, 0, 0,
                                          {RESHARD_INTEGER, 0, 1, 0, {0, 0}, 0, 0, 0}}};
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  static char stateless;
  *instance = &stateless;
  if (settings[0].value.integer == 8) {
    *instance = 0;
    if (error != 0) memcpy(error->text, "no", 2), error->text_size = 2;
    return RESHARD_BAD_OPTION;
  }
  return RESHARD_OK;
}
#define CREATE create
#define OPTIONS options
#define OPTION_COUNT 1
#define NAME "refuses_nameless"
#include "../plugins/plain.h"
