#include "aspen/ops/linalg/linalg.h"

#include <algorithm>
#include <numeric>

#include "aspen/backends/api/kernel.h"
#include "aspen/base/error.h"
#include "aspen/ops/linalg/factorize.ref.h"

namespace aspen {
namespace {

// The matrices of a tensor: (count, rows, columns).
struct Matrices {
  explicit Matrices(const TensorType& type)
      : rows(type.shape[type.shape.size() - 2]), columns(type.shape.back()), steps(std::min(rows, columns)),
        size(rows * columns), count(size == 0 ? 0 : type.numel() / size) {}
  std::int64_t rows, columns, steps, size, count;
};

template <class T>
void read(const T* from, double* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<double>(static_cast<Accumulator<T>>(from[i]));
}
template <class T>
void write(const double* from, T* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(static_cast<Accumulator<T>>(from[i]));
}

// Element (i, j) of op(a).
struct Triangle {
  const double* a;
  std::int64_t n;
  TriangularSolveAttrs attrs;

  double at(std::int64_t i, std::int64_t j) const { return attrs.transpose ? a[j * n + i] : a[i * n + j]; }
  bool is_upper() const { return attrs.upper != attrs.transpose; }
};

// x (n, k) holds the right sides, and then the solutions.
void substitute(const Triangle& t, double* x, std::int64_t k) {
  for (std::int64_t step = 0; step < t.n; ++step) {
    std::int64_t i = t.is_upper() ? t.n - 1 - step : step;
    std::int64_t begin = t.is_upper() ? i + 1 : 0, end = t.is_upper() ? t.n : i;
    for (std::int64_t column = 0; column < k; ++column) {
      double sum = x[i * k + column];
      for (std::int64_t j = begin; j < end; ++j) sum -= t.at(i, j) * x[j * k + column];
      x[i * k + column] = t.attrs.unit ? sum : sum / t.at(i, i);
    }
  }
}

void triangular_solve(const KernelCall& call) {
  Matrices a(call.in_type(0)), b(call.in_type(1));
  auto* matrix = call.workspace<double>();
  double* x = matrix + a.size;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.count; ++i) {
      read(call.in<T>(0) + i * a.size, matrix, a.size);
      read(call.in<T>(1) + i * b.size, x, b.size);
      substitute({matrix, a.rows, call.attrs<TriangularSolveAttrs>()}, x, b.columns);
      write(x, call.out<T>(0) + i * b.size, b.size);
    }
  });
}

void cholesky(const KernelCall& call) {
  Matrices a(call.in_type(0));
  auto* matrix = call.workspace<double>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.count; ++i) {
      read(call.in<T>(0) + i * a.size, matrix, a.size);
      for (std::int64_t k = 0; k < a.rows; ++k) matrix[k * a.rows + k] += call.attrs<CholeskyAttrs>().shift;
      call.out<std::int32_t>(1)[i] = cholesky_factor(matrix, a.rows);
      write(matrix, call.out<T>(0) + i * a.size, a.size);
    }
  });
}

void lu(const KernelCall& call) {
  Matrices a(call.in_type(0));
  auto* matrix = call.workspace<double>();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.count; ++i) {
      read(call.in<T>(0) + i * a.size, matrix, a.size);
      call.out<std::int32_t>(2)[i] = lu_factor(matrix, a.rows, a.columns, call.out<std::int32_t>(1) + i * a.steps);
      write(matrix, call.out<T>(0) + i * a.size, a.size);
    }
  });
}

void pivot_order(const KernelCall& call) {
  const std::int64_t steps = call.in_type(0).shape.back(), rows = call.out_type(0).shape.back();
  const std::int64_t count = steps == 0 ? 0 : call.in_type(0).numel() / steps;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t* pivots = call.in<std::int32_t>(0) + i * steps;
    std::int32_t* order = call.out<std::int32_t>(0) + i * rows;
    std::iota(order, order + rows, 0);
    for (std::int64_t step = 0; step < steps; ++step) {
      if (pivots[step] < 1 || pivots[step] > rows) {
        throw UserError("[lu] pivot {} of step {} is out of range for {} rows; expected 1 to {}.", pivots[step],
                        step + 1, rows, rows);
      }
      std::swap(order[step], order[pivots[step] - 1]);
    }
  }
}

void check_factored(const KernelCall& call) {
  const auto& attrs = call.attrs<CheckFactoredAttrs>();
  const std::int64_t count = call.in_type(0).numel();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t info = call.in<std::int32_t>(0)[i];
    if (info == 0) continue;
    std::string problem = attrs.problem;
    if (const auto place = problem.find("{}"); place != std::string::npos) {
      problem.replace(place, 2, std::to_string(info));
    }
    throw UserError("[{}] {}: {}{}", attrs.who, attrs.api,
                    call.in_type(0).rank() == 0 ? "" : fmt::format("(Batch element {}): ", i), problem);
  }
}

void householder(const KernelCall& call) {
  Matrices a(call.in_type(0));
  auto* matrix = call.workspace<double>();
  double* tau = matrix + a.size;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.count; ++i) {
      read(call.in<T>(0) + i * a.size, matrix, a.size);
      householder_factor(matrix, a.rows, a.columns, tau);
      write(matrix, call.out<T>(0) + i * a.size, a.size);
      write(tau, call.out<T>(1) + i * a.steps, a.steps);
    }
  });
}

void symmetric_eigen(const KernelCall& call) {
  Matrices a(call.in_type(0));
  const std::int64_t n = a.rows;
  auto* matrix = call.workspace<double>();
  double *vectors = matrix + a.size, *values = vectors + a.size;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.count; ++i) {
      read(call.in<T>(0) + i * a.size, matrix, a.size);
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t column = row + 1; column < n; ++column) matrix[row * n + column] = matrix[column * n + row];
      }
      eigen_factor(matrix, n, values, vectors);
      write(values, call.out<T>(0) + i * n, n);
      write(vectors, call.out<T>(1) + i * a.size, a.size);
    }
  });
}

void svd(const KernelCall& call) {
  Matrices a(call.in_type(0));
  const bool is_wide = a.rows < a.columns;  // then the transposed matrix is factored
  const std::int64_t m = std::max(a.rows, a.columns), n = a.steps;
  auto* matrix = call.workspace<double>();
  double *v = matrix + a.size, *s = v + n * n;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.count; ++i) {
      const T* x = call.in<T>(0) + i * a.size;
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < n; ++column) {
          const T element = is_wide ? x[column * m + row] : x[row * n + column];
          matrix[row * n + column] = static_cast<double>(static_cast<Accumulator<T>>(element));
        }
      }
      singular_factor(matrix, m, n, s, v);
      write(is_wide ? v : matrix, call.out<T>(0) + i * a.rows * n, a.rows * n);
      write(s, call.out<T>(1) + i * n, n);
      write(is_wide ? matrix : v, call.out<T>(2) + i * a.columns * n, a.columns * n);
    }
  });
}

// Doubles for two operands and a line: enough for each of them.
std::size_t workspace(const KernelRequest& request) {
  Matrices a(request.inputs[0].type);
  std::int64_t other = request.inputs.size() > 1 ? Matrices(request.inputs[1].type).size : a.steps * a.steps;
  return static_cast<std::size_t>(a.size + other + a.steps) * sizeof(double);
}

}  // namespace

void register_linalg_ref(KernelRegistry& kernels) {
  kernels.add("triangular_solve", triangular_solve, workspace);
  kernels.add("cholesky", cholesky, workspace);
  kernels.add("lu", lu, workspace);
  kernels.add("pivot_order", pivot_order);
  kernels.add("check_factored", check_factored);
  kernels.add("householder", householder, workspace);
  kernels.add("symmetric_eigen", symmetric_eigen, workspace);
  kernels.add("svd", svd, workspace);
}

}  // namespace aspen
