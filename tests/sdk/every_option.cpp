#include "every_option.hpp"

RESHARD_STRATEGY(EveryOption, "every_option", "1.0.0", "answers with what it was told")
