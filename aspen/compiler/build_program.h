// The last step of compiling: makes a kernel for every op of a scheduled graph, plans the memory and writes the
// program down.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/compiler/make_kernels.h"
#include "aspen/runtime/program.h"

namespace aspen {

std::unique_ptr<Program> build_program(const Graph& graph, const CompileOptions& options, const Backend& backend);

// Whether the result of an op is part of the program: computed once, by build_program.
bool is_constant(const Op& op);

// Whether an op becomes a call of a kernel.
bool has_kernel(const Op& op);

// The attributes without what differentiation alone needs.
Attrs without_gradient(const Op& op);

// The kernel that was made for an op; an error that says where the op was captured.
std::shared_ptr<const Kernel> taken(const KernelOrError& made, const Op& op);

// Whether the executor hands the op its first input in every replica.
bool spans_replicas(const Op& op);

}  // namespace aspen
