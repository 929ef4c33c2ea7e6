/* It exports more than its entry, one of it in the way that C++ shares inline variables. */
#include <reshard/plugin.h>
RESHARD_EXPORT int acme_helper(void);
int acme_helper(void) { return 1; }
__asm__(".pushsection .data\n.globl acme_shared\n.type acme_shared, @gnu_unique_object\n.size acme_shared, 4\nacme_shared: .long 1\n.popsection\n");
#define NAME "loud"
#include "../plugins/plain.h"
