/* A library that exports an entry, under a name that a strategy may depend on. */
#define NAME "lender"
#include "plain.h"
