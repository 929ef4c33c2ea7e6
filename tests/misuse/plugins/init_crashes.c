/* Right until it is initialised. */
#include <stdlib.h>
#include <reshard/plugin.h>
static int32_t crash(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  abort();
}
#define INIT crash
#define NAME "init_crashes"
#include "plain.h"
