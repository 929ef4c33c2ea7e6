/* A thread goes on after deinit. */
#include <reshard/plugin.h>
#include <pthread.h>
#include <unistd.h>
static void* run(void* none) {
  for (;;) pause();
  return none;
}
static int32_t init(const reshard_host* host, reshard_error* error) {
  (void)host, (void)error;
  pthread_t thread;
  pthread_create(&thread, 0, run, 0);
  pthread_detach(thread);
  return RESHARD_OK;
}
#define INIT init
#define NAME "busy"
#include "../plugins/plain.h"
