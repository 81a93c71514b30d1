#include "aspen/ops/dot/dot_vector.cpu.h"

#include <algorithm>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"

namespace aspen {
namespace {

// A part of the columns of a matrix of k rows, each `stride` numbers long.
struct ColumnsByVector {
  std::int64_t k, stride, columns;
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/dot/dot_vector_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

const float* matrix_of(const KernelArgs& args, const VectorDot& d) {
  return static_cast<const float*>(args.inputs[d.matrix]);
}
const float* vector_of(const KernelArgs& args, const VectorDot& d) {
  return static_cast<const float*>(args.inputs[d.vector]);
}

// Cut between rows, those of all matrices in one line.
std::unique_ptr<Kernel> make_by_rows(const VectorDot& d, double cost) {
  return make_kernel([d, chunks = cut(d.batch * d.outputs, cost, {.multiple = 8})](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      for (std::int64_t row = chunk.begin; row < chunk.end;) {
        std::int64_t of_batch = row / d.outputs, end = std::min(chunk.end, (of_batch + 1) * d.outputs);
        ASPEN_BEST(rows_by_vector)
        (matrix_of(args, d) + row * d.k, end - row, d.k, vector_of(args, d) + of_batch * d.k,
         static_cast<float*>(args.outputs[0]) + row);
        row = end;
      }
    });
  });
}

// Cut between matrices, or else between columns of all of them.
std::unique_ptr<Kernel> make_by_columns(const VectorDot& d, double cost) {
  const bool whole = d.batch >= 2 * worthwhile_parts(cost);
  Chunks chunks = whole ? cut(d.batch, cost) : cut(d.outputs, cost, {.multiple = 64, .least = 128});
  return make_kernel([d, whole, chunks](const KernelArgs& args) {
    for_each_chunk(args, chunks, [&](const Chunk& chunk) {
      Chunk batch = whole ? chunk : Chunk{0, 0, d.batch}, columns = whole ? Chunk{0, 0, d.outputs} : chunk;
      for (std::int64_t i = batch.begin; i < batch.end; ++i) {
        ASPEN_BEST(columns_by_vector)
        (matrix_of(args, d) + i * d.k * d.outputs + columns.begin, {d.k, d.outputs, columns.size()},
         vector_of(args, d) + i * d.k, static_cast<float*>(args.outputs[0]) + i * d.outputs + columns.begin);
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_vector_dot(const VectorDot& dot) {
  double cost = kReadCost * static_cast<double>(dot.batch * dot.outputs * dot.k);
  if (dot.is_by_rows) return make_by_rows(dot, cost);
  return make_by_columns(dot, cost);
}

}  // namespace aspen
