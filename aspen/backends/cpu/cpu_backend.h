// The CPU backend: oneDNN for large convolutions, products and pooling, vectorised loops for the rest. What it
// has no kernel for runs on the reference kernel, which is correct on any CPU.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"

namespace aspen {

std::unique_ptr<Backend> make_cpu_backend();

// Registers every kernel in aspen/ops/*/*.cpu.cpp (the list is written by CMake).
void register_cpu_kernels(KernelRegistry& kernels);

}  // namespace aspen
