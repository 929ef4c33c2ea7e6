/* It spoils the exit. */
#include <reshard/plugin.h>
#include <stdlib.h>
#include <unistd.h>
static void end(void) { _exit(3); }
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  atexit(end);
  return RESHARD_OK;
}
#define INIT init
#define NAME "ends_badly"
#include "../plugins/plain.h"
