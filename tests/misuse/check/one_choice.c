/* It fails for one of its choices. */
#include <reshard/plugin.h>
static const reshard_text choices[] = {RESHARD_TEXT("keep"), RESHARD_TEXT("free")};
static const reshard_option options[] = {{RESHARD_TEXT("way"), RESHARD_TEXT("which way"), RESHARD_CHOICE, 0, 0, 0, 0, 0, choices, 2, 0,
                                          {RESHARD_CHOICE, 0, 0, 0, RESHARD_TEXT("keep"), 0, 0, 0}}};
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  static char stateless;
  *instance = &stateless;
  if (settings[0].value.integer == 1) {
    *instance = 0;
    return RESHARD_INTERNAL;
  }
  return RESHARD_OK;
}
#define CREATE create
#define OPTIONS options
#define OPTION_COUNT 1
#define NAME "one_choice"
#include "../plugins/plain.h"
