/* Compiled in every language that the header promises, as HEADER_LANGUAGE; read by header_test. */
#include <reshard/plugin.h>

#ifdef __cplusplus
extern "C"
#endif
    uint64_t
    HEADER_LANGUAGE(const reshard_entry* entry);

uint64_t HEADER_LANGUAGE(const reshard_entry* entry) {
  static const reshard_text text = RESHARD_TEXT("four");
  const uint64_t strategies = RESHARD_HAS(reshard_entry, entry, strategies) ? 1 : 0;
  const uint64_t count = RESHARD_HAS(reshard_entry, entry, strategy_count) ? 2 : 0;
  return strategies + count + text.size * 100;
}
