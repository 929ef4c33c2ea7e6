/* It takes short texts alone. */
#include <reshard/plugin.h>
static const reshard_option options[] = {{RESHARD_TEXT("unit"), RESHARD_TEXT("which"), RESHARD_STRING, 0, 0, 0, 0, 0, 0, 0, 0,
                                          {RESHARD_STRING, 0, 0, 0, {0, 0}, 0, 0, 0}}};
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  static char stateless;
  *instance = &stateless;
  if (settings[0].value.text.size > 100) {
    *instance = 0;
    return RESHARD_FAILED;
  }
  return RESHARD_OK;
}
#define CREATE create
#define OPTIONS options
#define OPTION_COUNT 1
#define NAME "short_texts"
#include "../plugins/plain.h"
