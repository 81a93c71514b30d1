// Both operands are brought to (M, K) and (K, N) in the type of the sums; then every row of the result is a sum of
// rows of b, in the order of k, which vectorises and whose order never changes.
#include "aspen/ops/dot/dot.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/ops/dot/dot.ref.h"
#include "aspen/ops/dot/dot_partials.ref.h"

namespace aspen {
namespace {

struct Extents {
  std::int64_t batch, m, k, n;
};

Extents extents_of(const KernelRequest& request) {
  const Shape &a = request.inputs[0].type.shape, &y = request.outputs[0].shape;
  auto rank = a.size();
  Extents e{1, y[rank - 2], a[rank - (request.attrs.as<DotAttrs>().transpose_a ? 2 : 1)], y[rank - 1]};
  for (std::size_t i = 0; i + 2 < rank; ++i) e.batch *= y[i];
  return e;
}

// (rows, columns) row major, from a matrix stored so or transposed.
template <class T, class A>
void load(const T* from, bool transposed, std::int64_t rows, std::int64_t columns, A* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      to[i * columns + j] = static_cast<A>(transposed ? from[j * rows + i] : from[i * columns + j]);
    }
  }
}

// kRows rows of a share each pass over b.
template <int kRows, class A>
void multiply_rows(const A* a, const A* b, A* y, std::int64_t k_extent, std::int64_t n) {
  std::fill(y, y + kRows * n, A{0});
  for (std::int64_t k = 0; k < k_extent; ++k) {
    const A* row = b + k * n;
    for (int r = 0; r < kRows; ++r) {
      A factor = a[r * k_extent + k];
      A* __restrict sum = y + r * n;
      for (std::int64_t j = 0; j < n; ++j) sum[j] += factor * row[j];
    }
  }
}

constexpr int kRowBlock = 4;

}  // namespace

void multiply_matrices(const KernelCall& call) {
  Extents e = extents_of(call.request());
  const auto& attrs = call.attrs<DotAttrs>();
  dispatch(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    A* a = call.workspace<A>();
    A* b = a + e.m * e.k;
    A* rows = b + e.k * e.n;
    for (std::int64_t batch = 0; batch < e.batch; ++batch) {
      load(call.in<T>(0) + batch * e.m * e.k, attrs.transpose_a, e.m, e.k, a);
      load(call.in<T>(1) + batch * e.k * e.n, attrs.transpose_b, e.k, e.n, b);
      T* y = call.out<T>(0) + batch * e.m * e.n;
      for (std::int64_t i = 0; i < e.m; i += kRowBlock) {
        std::int64_t count = std::min<std::int64_t>(kRowBlock, e.m - i);
        if (count == kRowBlock) {
          multiply_rows<kRowBlock>(a + i * e.k, b, rows, e.k, e.n);
        } else {
          for (std::int64_t r = 0; r < count; ++r) multiply_rows<1>(a + (i + r) * e.k, b, rows + r * e.n, e.k, e.n);
        }
        for (std::int64_t j = 0; j < count * e.n; ++j) y[i * e.n + j] = static_cast<T>(rows[j]);
      }
    }
  });
}

std::size_t multiply_matrices_workspace(const KernelRequest& request) {
  Extents e = extents_of(request);
  std::size_t size = request.inputs[0].type.dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(e.m * e.k + e.k * e.n + kRowBlock * e.n) * size;
}

void register_dot_ref(KernelRegistry& kernels) {
  kernels.add("dot", half_partials(plain_kernel(multiply_matrices, multiply_matrices_workspace), dot_axes));
  kernels.add("dot", multiply_matrices, multiply_matrices_workspace);
  kernels.add("dot_float", multiply_matrices,
              multiply_matrices_workspace);  // between conversions, as everything in bfloat16
}

}  // namespace aspen
