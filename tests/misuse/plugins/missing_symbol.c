/* Imports something that nothing provides. */
#include <reshard/plugin.h>
void no_such_function(void);
static void deinit(void) {
  no_such_function();
}
#define NAME "missing_symbol"
#define DEINIT deinit
#include "plain.h"
