/* Has a note and no entry: the one that is found is of a library that it depends on. */
#include <reshard/plugin.h>
extern const reshard_entry reshard_plugin_v1;
const reshard_entry* borrowed(void);
const reshard_entry* borrowed(void) {
  return &reshard_plugin_v1;
}
RESHARD_NOTE("borrowed_entry", "1.0.0", 0)
