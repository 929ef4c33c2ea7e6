/* The file has another name than its note. */
#define NAME "some_name"
#include "plain.h"
