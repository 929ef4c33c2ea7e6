/* create succeeds without an instance. */
#include <reshard/plugin.h>
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)settings, (void)count, (void)instance, (void)error;
  return RESHARD_OK;
}
#define NAME "no_instance"
#define CREATE create
#include "plain.h"
