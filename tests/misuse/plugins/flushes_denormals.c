/* Changes how the thread computes, when it is loaded and in decide, as code linked with fast-math does. */
#include <reshard/plugin.h>
#if defined(__x86_64__)
static void flush(void) {
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
}
#else
static void flush(void) {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  control |= 1u << 24;
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#endif
__attribute__((constructor)) static void run(void) {
  flush();
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan, (void)error;
  flush();
  return RESHARD_OK;
}
#define NAME "flushes_denormals"
#define DECIDE decide
#include "plain.h"
