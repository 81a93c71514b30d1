// The check behind Program::checks_floats: finds the first op that makes an infinity or NaN of finite inputs. Called by
// the workers around every instruction.
#pragma once

#include "aspen/runtime/bound_task.h"

namespace aspen {

// Whether the results of an instruction are to be checked: it has floating inputs and all of them are finite. To be
// asked before it runs, as it may write over its inputs.
bool has_finite_inputs(const BoundInstruction& bound);

// DeviceError naming output, element and value if a floating output of the instruction is not finite.
void require_finite_outputs(const BoundInstruction& bound);

}  // namespace aspen
