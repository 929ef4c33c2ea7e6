/* It goes elsewhere. */
#include <reshard/plugin.h>
#include <unistd.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  (void)!chdir("/");
  return RESHARD_OK;
}
#define INIT init
#define NAME "changes_folder"
#include "../plugins/plain.h"
