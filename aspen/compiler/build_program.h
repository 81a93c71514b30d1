// The last step of compiling: makes a kernel for every op of a scheduled graph, plans the memory and writes the
// program down.
#pragma once

#include <memory>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/runtime/program.h"

namespace aspen {

std::unique_ptr<Program> build_program(const Graph& graph, const CompileOptions& options, const Backend& backend);

// Whether the executor hands the op its first input in every replica.
bool spans_replicas(const Op& op);

}  // namespace aspen
