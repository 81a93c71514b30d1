// The check behind Program::checks_floats: finds the first op that makes an infinity or NaN of finite inputs, a NaN of
// inputs that are none (inf - inf), or that asks which of two numbers is larger when one is NaN. Called by the workers
// around every instruction; is_finite also by the watch for overflows.
#pragma once

#include "aspen/runtime/bound_task.h"

namespace aspen {

// What the results of an instruction may be.
enum class AllowedFloats { kAll, kNoNan, kFinite };

// From the inputs of an instruction: finite ones give finite results, and ones that are not NaN no NaN. kAll if it has
// no floating inputs. To be asked before it runs, as it may write over its inputs. UserError if it compares with a
// NaN.
AllowedFloats allowed_floats(const BoundInstruction& bound);

// Whether all elements are; of a floating type.
bool is_finite(const TensorType& type, const void* data);

// UserError naming output, element and value if a floating output of the instruction is not allowed.
void check_outputs(const BoundInstruction& bound, AllowedFloats allowed);

}  // namespace aspen
