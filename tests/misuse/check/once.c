/* It can be started once. */
#include <reshard/plugin.h>
static int started;
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  if (started++ > 0) return RESHARD_FAILED;
  return RESHARD_OK;
}
#define INIT init
#define NAME "once"
#include "../plugins/plain.h"
