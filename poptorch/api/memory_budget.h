// Memory budgets of devices as users write them: "256M" for each device, "IPU0=256M,IPU1=1G" for some, and ",auto"
// behind it if the compiler is to see to it. Given by Options::setMemoryBudget or, for models whose options say
// nothing, by the environment variable ASPEN_MEMORY_BUDGET.
#pragma once

#include <string>

#include "aspen/compiler/compile.h"
#include "poptorch/api/option_store.h"

namespace poptorch {

// A ValueError, which names `who` says so, if the text is something else.
aspen::MemoryBudget parse_memory_budget(const std::string& text, const std::string& who);
// The same budget as text, in bytes.
std::string text_of(const aspen::MemoryBudget& budget);
// Of the argument of setMemoryBudget: a number of bytes, a text, or texts and numbers by device, {"IPU0": "256M"}.
aspen::MemoryBudget memory_budget_of(const OptionValue& given, bool automatic);
// What the options or else the environment say.
aspen::MemoryBudget memory_budget(const OptionStore& options);

}  // namespace poptorch
