/* It changes the umask. */
#include <reshard/plugin.h>
#include <sys/stat.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  umask(0123);
  return RESHARD_OK;
}
#define INIT init
#define NAME "masks"
#include "../plugins/plain.h"
