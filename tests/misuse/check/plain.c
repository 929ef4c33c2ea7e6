/* Right in every respect. */
#define NAME "plain"
#include "../plugins/plain.h"
