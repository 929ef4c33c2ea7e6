/* A reserved member is not 0. */
#include <reshard/plugin.h>
#define ENTRY_RESERVED 5
#define NAME "reserved_set"
#include "../plugins/plain.h"
