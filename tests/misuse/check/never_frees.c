/* Instances are not freed. */
#include <reshard/plugin.h>
#include <stdlib.h>
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)error;
  *instance = malloc(100);
  return RESHARD_OK;
}
#define CREATE create
#define NAME "never_frees"
#include "../plugins/plain.h"
