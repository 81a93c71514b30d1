// Turns errors of the core, and of torch inside it, into poptorch::Error at the border of the API.
#pragma once

#include <c10/util/Exception.h>

#include "aspen/base/error.h"
#include "poptorch/error.h"

namespace poptorch {

// Throws an Error, or where a device has failed a RecoverableError or UnrecoverableError. The type tells whose fault it
// is; the location is what the text says of the op and the line it was captured at.
[[noreturn]] void throw_as_own(const aspen::Error& error);

template <class F>
auto guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const aspen::Error& error) {
    throw_as_own(error);
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace(), "torch_error");
  }
}

}  // namespace poptorch
