/* Right by its note; a fault of memory as soon as it is loaded. */
#include <signal.h>
__attribute__((constructor)) static void run(void) {
  raise(SIGSEGV);
}
#define NAME "crashes"
#include "plain.h"
