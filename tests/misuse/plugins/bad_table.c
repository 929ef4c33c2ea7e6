/* The default of an option lies outside its own range. */
#include <reshard/plugin.h>
static const reshard_option options[] = {
    {RESHARD_TEXT("ahead"),
     RESHARD_TEXT("too far"),
     RESHARD_INTEGER,
     0,
     0,
     8,
     0,
     0,
     NULL,
     0,
     0,
     {RESHARD_INTEGER, 0, 9, 0, {NULL, 0}, NULL, 0, 0}},
};
#define NAME "bad_table"
#define OPTIONS options
#define OPTION_COUNT 1
#include "plain.h"
