/* Option `status`: what decide returns, with a text; create returns it when `create` is true. */
#include <reshard/plugin.h>
#include <string.h>
static const reshard_option options[] = {
    {RESHARD_TEXT("create"),
     RESHARD_TEXT("fail in create"),
     RESHARD_BOOL,
     0,
     0,
     1,
     0,
     0,
     NULL,
     0,
     0,
     {RESHARD_BOOL, 0, 0, 0, {NULL, 0}, NULL, 0, 0}},
    {RESHARD_TEXT("status"),
     RESHARD_TEXT("what is returned"),
     RESHARD_INTEGER,
     0,
     -100,
     100,
     0,
     0,
     NULL,
     0,
     0,
     {RESHARD_INTEGER, 0, 0, 0, {NULL, 0}, NULL, 0, 0}},
    {RESHARD_TEXT("text"),
     RESHARD_TEXT("the reason"),
     RESHARD_STRING,
     0,
     0,
     0,
     0,
     0,
     NULL,
     0,
     0,
     {RESHARD_STRING, 0, 0, 0, RESHARD_TEXT("on purpose"), NULL, 0, 0}},
};
static int32_t status;
static char text[64];
static uint32_t size;
static int32_t answer(reshard_error* error) {
  error->text_size = size;
  memcpy(error->text, text, size);
  return status;
}
static int32_t create(const reshard_host* host, const reshard_setting* settings, uint32_t count, void** instance,
                      reshard_error* error) {
  (void)host, (void)count;
  status = (int32_t)settings[1].value.integer;
  size = (uint32_t)settings[2].value.text.size;
  memcpy(text, settings[2].value.text.data, size);
  *instance = &status;
  return settings[0].value.integer != 0 ? answer(error) : RESHARD_OK;
}
static int32_t decide(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error) {
  (void)instance, (void)problem, (void)plan;
  return answer(error);
}
#define NAME "odd_status"
#define OPTIONS options
#define OPTION_COUNT 3
#define CREATE create
#define DECIDE decide
#include "plain.h"
