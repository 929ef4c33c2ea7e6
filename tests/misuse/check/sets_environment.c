/* It sets a variable. */
#define _GNU_SOURCE
#include <reshard/plugin.h>
#include <stdlib.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  setenv("ACME", "1", 1);
  return RESHARD_OK;
}
#define INIT init
#define NAME "sets_environment"
#include "../plugins/plain.h"
