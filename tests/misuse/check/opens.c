/* A descriptor stays open. */
#include <reshard/plugin.h>
#include <fcntl.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  (void)!open("/dev/null", O_RDONLY);
  return RESHARD_OK;
}
#define INIT init
#define NAME "opens"
#include "../plugins/plain.h"
