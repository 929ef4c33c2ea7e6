/* Built for the majors 2 and 3 of the ABI. */
#include <reshard/plugin.h>
#define NOTE(variable, major, minor)                                                                 \
  __attribute__((section(".note.reshard"), used, aligned(4))) static const reshard_note variable = { \
      8, 104, 1, "RESHARD", major, minor, 0, 0, "other_major", "1.0.0"};
NOTE(second, 2, 0)
NOTE(third, 3, 1)
RESHARD_EXPORT const int reshard_plugin_v1;
const int reshard_plugin_v1 = 0;
