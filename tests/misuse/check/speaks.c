/* It changes the locale. */
#include <reshard/plugin.h>
#include <locale.h>
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  setlocale(LC_ALL, "C.UTF-8");
  return RESHARD_OK;
}
#define INIT init
#define NAME "speaks"
#include "../plugins/plain.h"
