/* Right by its note; ends the process as if all were well as soon as it is loaded. */
#include <stdlib.h>
__attribute__((constructor)) static void run(void) {
  exit(0);
}
#define NAME "exits"
#include "plain.h"
