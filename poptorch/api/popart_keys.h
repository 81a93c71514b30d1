// Checks of the _Popart options, made when a model is compiled: known names and the kind of value each of them takes.
#pragma once

#include "poptorch/api/option_store.h"

namespace poptorch {

// An Error for the first entry that is wrong.
void check_popart_options(const OptionStore::Group& options);

}  // namespace poptorch
