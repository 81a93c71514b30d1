#include "aspen/base/variable_kind.h"

namespace aspen {

std::string_view name_of(VariableKind kind) {
  switch (kind) {
    case VariableKind::kParameter: return "parameter";
    case VariableKind::kBuffer: return "buffer";
    case VariableKind::kOptimizerState: return "optimizer_state";
    case VariableKind::kAccumulator: return "accumulator";
    case VariableKind::kSetting: break;
  }
  return "setting";
}

}  // namespace aspen
