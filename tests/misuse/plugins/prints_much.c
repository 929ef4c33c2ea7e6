/* Right by its note; writes a megabyte to stdout. */
#include <stdio.h>
__attribute__((constructor)) static void run(void) {
  for (int i = 0; i < 16384; ++i) puts("................................................................");
  fflush(stdout);
}
#define NAME "prints_much"
#include "plain.h"
