/* Right by its note; closes descriptors that are not its own. */
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
  for (int i = 0; i <= 20; ++i) close(i);
}
#define NAME "closes_all"
#include "plain.h"
