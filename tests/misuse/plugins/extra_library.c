/* Depends on a library of its own, which another machine would not have. */
#include <reshard/plugin.h>
void helper(void);
static void deinit(void) {
  helper();
}
#define NAME "extra_library"
#define DEINIT deinit
#include "plain.h"
