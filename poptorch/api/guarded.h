// Turns errors of the core into poptorch::Error at the border of the C++ API.
#pragma once

#include "aspen/base/error.h"
#include "poptorch/error.h"

namespace poptorch {

template <class F>
auto guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const aspen::Error& error) {
    throw Error(error.what());
  }
}

}  // namespace poptorch
