// Counts what a test binary allocates: malloc and its relatives, from any thread and any library.
#pragma once

namespace aspen::testing {

// Whether this build can count: the sanitizers have an allocator of their own.
bool counts_allocations();

// Allocations since the program began, but for those of dnnl_primitive_execute: oneDNN makes a table of its arguments
// on the heap with every call, which nobody can prevent from outside.
long num_allocations();

}  // namespace aspen::testing
