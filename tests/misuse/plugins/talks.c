/* Logs at every step of its life, from several lines to too long ones. Not broken: it shows what arrives. */
#include <reshard/plugin.h>
#include <string.h>
static const reshard_host* library_host;
static void say(const reshard_host* host, uint32_t level, const char* words) {
  const reshard_text line = {words, strlen(words)};
  if (host->log_enabled(host->context, level)) host->log(host->context, level, line);
}
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)error;
  library_host = host;
  say(host, RESHARD_LOG_INFO, "init");
  return RESHARD_OK;
}
static void deinit(void) {
  say(library_host, RESHARD_LOG_INFO, "deinit");
}
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)settings, (void)count, (void)error;
  say(host, RESHARD_LOG_DEBUG, "create\nin two lines\x1b[1m");
  *instance = (void*)(uintptr_t)host; /* valid until destroy has returned */
  return RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  const reshard_host* host = (const reshard_host*)instance;
  static char lengthy[10000];
  (void)problem, (void)plan, (void)error;
  memset(lengthy, 'x', sizeof lengthy - 1);
  say(host, 99, lengthy);
  return host->get_extension(host->context, (reshard_text)RESHARD_TEXT("reshard.none/1")) == NULL ? RESHARD_OK
                                                                                                  : RESHARD_INTERNAL;
}
#define NAME "talks"
#define INIT init
#define DEINIT deinit
#define CREATE create
#define DECIDE decide
#include "plain.h"
