/* Right by its note; never comes back from being loaded. */
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
  for (;;) pause();
}
#define NAME "hangs"
#include "plain.h"
