/* It keeps every step for ever. */
#include <reshard/ext/feedback.h>
#include <string.h>
#include <stdlib.h>
static void* kept;
static int32_t summary(void* instance, const reshard_summary* step, uint32_t* decide_anew, reshard_error* error) {
  (void)instance, (void)step, (void)decide_anew, (void)error;
  kept = malloc(1000);
  return kept != NULL ? RESHARD_OK : RESHARD_OUT_OF_MEMORY;
}
static const reshard_feedback table = {sizeof(reshard_feedback), 0, summary};
static const void* get_extension(reshard_text id) {
  return id.size == sizeof RESHARD_FEEDBACK_ID - 1 && memcmp(id.data, RESHARD_FEEDBACK_ID, id.size) == 0 ? &table : NULL;
}
#define GET_EXTENSION get_extension
#define NAME "keeps_steps"
#include "../plugins/plain.h"
