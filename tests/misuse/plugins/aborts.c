/* Right by its note; ends the process as soon as it is loaded. */
#include <stdlib.h>
__attribute__((constructor)) static void run(void) {
  abort();
}
#define NAME "aborts"
#include "plain.h"
