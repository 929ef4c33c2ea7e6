/* It asks for more than to decide anew. */
#include <reshard/ext/feedback.h>
#include <string.h>
static int32_t summary(void* instance, const reshard_summary* step, uint32_t* decide_anew, reshard_error* error) {
  (void)instance, (void)step, (void)error;
  *decide_anew = 7;
  return RESHARD_OK;
}
static const reshard_feedback table = {sizeof(reshard_feedback), 0, summary};
static const void* get_extension(reshard_text id) {
  return id.size == sizeof RESHARD_FEEDBACK_ID - 1 && memcmp(id.data, RESHARD_FEEDBACK_ID, id.size) == 0 ? &table : NULL;
}
#define GET_EXTENSION get_extension
#define NAME "wishes_much"
#include "plain.h"
