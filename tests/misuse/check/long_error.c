/* It says that a text is longer than its buffer. */
#include <reshard/plugin.h>
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  if (error != 0 && error->struct_size >= sizeof *error) error->text_size = 5000;
  return RESHARD_FAILED;
}
#define DECIDE decide
#define NAME "long_error"
#include "../plugins/plain.h"
