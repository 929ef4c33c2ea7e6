/* init fails: nothing else may be called. */
#include <reshard/plugin.h>
#include <stdlib.h>
#include <string.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host;
  error->text_size = 16;
  memcpy(error->text, "no licence found", 16);
  return RESHARD_FAILED;
}
static void deinit(void) {
  abort();
}
#define NAME "init_fails"
#define INIT init
#define DEINIT deinit
#include "plain.h"
