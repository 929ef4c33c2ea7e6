/* Its summary is empty. */
#include <reshard/plugin.h>
#define SUMMARY {0, 0}
#define NAME "no_summary"
#include "../plugins/plain.h"
