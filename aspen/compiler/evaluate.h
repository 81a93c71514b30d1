// Runs one op while compiling: constants of a program and the folding of constants.
#pragma once

#include <cstddef>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/ir/graph.h"

namespace aspen {

KernelRequest kernel_request(const Op& op);

// The bytes of each output, given those of each input (nullptr for one left out).
std::vector<std::vector<std::byte>> evaluate(const Op& op, const std::vector<const std::vector<std::byte>*>& inputs,
                                             const Backend& backend);

// "encoder/conv1 (model.py:42)": where an op was captured, for messages.
std::string describe(const Location& location);
// Back from such a text.
Location split_location(const std::string& text);

}  // namespace aspen
