// How the values of enumerations are written in a profile, in their order.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "aspen/profile/profile.h"

namespace aspen::profile {

template <class Enum>
inline constexpr std::array<std::string_view, 0> kNames{};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Section>{"step", "update"};
template <>
inline constexpr std::array<std::string_view, 4> kNames<Pass>{"forward", "backward", "recompute", "update"};
template <>
inline constexpr std::array<std::string_view, 7> kNames<BlockKind>{"forward", "backward", "update",  "input",
                                                                   "output",  "exchange", "transfer"};
template <>
inline constexpr std::array<std::string_view, 11> kNames<BufferKind>{
    "weight", "optimizer state", "accumulator", "variable", "constant", "activation",
    "stash",  "gradient",        "workspace",   "input",    "output"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<Confidence>{"low", "medium", "high"};

template <class Enum>
constexpr std::string_view to_string(Enum value) {
  return kNames<Enum>[static_cast<std::size_t>(value)];
}

}  // namespace aspen::profile
