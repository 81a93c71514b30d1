// The references of sgd and adam, for ops that make the gradient, too.
#pragma once

#include "aspen/backends/api/kernel.h"

namespace aspen {

void update_by_sgd(const KernelCall& call);
void update_by_adam(const KernelCall& call);

}  // namespace aspen
