// Lets the program read integers of 64 bits where the host has them. Up to here such an input is an i32 that is marked
// as wide; from here on it is i64, and each task that reads it brings it to 32 bits itself.
//
//   graph @main(%ids: i32[8] wide)           graph @main(%ids: i64[8])
//   %0 = take(%w, %ids)    task 0      =>    %0 = narrow(%ids)      task 0
//   %1 = nll(%0, %ids, _)  task 1            %1 = take(%w, %0)      task 0
//                                            %2 = narrow(%ids)      task 1
//                                            %3 = nll(%1, %2, _)    task 1
//
// An op that follows wide indices itself (gather, scatter) reads them as they are.
//
// Once per task, not once in all: the host's memory is at hand for every device, so nothing is sent or kept. An integer
// that does not fit is an error of the first op that reads it; an input that nobody reads is not looked at.
//
// Expects: transfers complete. Ensures: partitioned, transfers complete; no input is marked as wide.
// After insert_transfers, when it is known which task reads what, and before overlap_io, which brings inputs as they
// are; before group_elementwise, which lets `narrow` run with the pointwise ops that read it.
#pragma once

#include "aspen/compiler/passes/pass.h"

namespace aspen {

void narrow_inputs(Graph& graph, const PassContext& context);

}  // namespace aspen
