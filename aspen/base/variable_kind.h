// What a variable is for. Said by the graph, kept by the program, for reports of memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace aspen {

enum class VariableKind : std::uint8_t { kParameter, kBuffer, kOptimizerState, kAccumulator, kSetting };

std::string_view name_of(VariableKind kind);

}  // namespace aspen
