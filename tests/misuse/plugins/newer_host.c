/* Needs a host that does not exist yet; ends the process if any of it is run. */
#include <stdlib.h>
__attribute__((constructor)) static void run(void) {
  abort();
}
#define NAME "newer_host"
#define REQUIRED_MINOR 7
#include "plain.h"
