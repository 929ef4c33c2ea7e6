/* init takes its time. */
#define _GNU_SOURCE
#include <reshard/plugin.h>
#include <unistd.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  usleep(150000);
  return RESHARD_OK;
}
#define INIT init
#define NAME "slow"
#include "../plugins/plain.h"
