/* init leaves memory behind. */
#include <reshard/plugin.h>
#include <stdlib.h>
static void* volatile kept;
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  kept = malloc(100);
  return RESHARD_OK;
}
#define INIT init
#define NAME "grows_by_init"
#include "../plugins/plain.h"
