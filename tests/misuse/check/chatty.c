/* It prints. */
#include <reshard/plugin.h>
#include <stdio.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  printf("hello");
  return RESHARD_OK;
}
#define INIT init
#define NAME "chatty"
#include "../plugins/plain.h"
