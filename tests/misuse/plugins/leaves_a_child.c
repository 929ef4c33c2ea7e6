/* Right by its note; leaves a process behind that holds all it was given open. */
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
  if (fork() == 0)
    for (;;) pause();
}
#define NAME "leaves_a_child"
#include "plain.h"
