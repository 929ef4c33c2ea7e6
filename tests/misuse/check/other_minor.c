/* The entry says another minor than the note. */
#include <reshard/plugin.h>
#define ENTRY_MINOR 7
#define NAME "other_minor"
#include "../plugins/plain.h"
