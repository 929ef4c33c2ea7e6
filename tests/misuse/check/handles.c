/* It handles a signal. */
#include <reshard/plugin.h>
#include <signal.h>
static void handle(int number) { (void)number; }
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  signal(SIGUSR1, handle);
  return RESHARD_OK;
}
#define INIT init
#define NAME "handles"
#include "../plugins/plain.h"
