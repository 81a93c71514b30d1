// The reference backend: plain loops for every op, always built, the oracle the others are held against.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Backend> make_reference_backend();

// Registers every kernel in aspen/ops/*/*.ref.cpp (the list is written by CMake).
void register_reference_kernels(KernelRegistry& kernels);

}  // namespace aspen
