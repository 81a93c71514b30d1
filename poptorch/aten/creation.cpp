// Tensors made from numbers: full ones, ranges, grids and triangles of indices.
#include <cmath>

#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

void fill(Call& call, ScalarType type, Shape shape, double value) {
  call.result(build::full(call.b, graph_dtype(type), std::move(shape), value), type);
}

// zeros(SymInt[] size, *, ScalarType? dtype=None, ...), ones(...), empty.memory_format(...), empty_strided(...)
Handler filled(double value) {
  return [value](Call& call) {
    fill(call, call.dtype_option("dtype").value_or(default_float()), call.integers("size"), value);
  };
}

// full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...)
void full_of(Call& call) {
  fill(call, call.dtype_option("dtype").value_or(type_of_scalar(call, "fill_value")), call.integers("size"),
       call.number("fill_value"));
}

// zeros_like(Tensor self, *, ScalarType? dtype=None, ...), ones_like(...), empty_like(...)
Handler filled_like(double value) {
  return [value](Call& call) {
    fill(call, call.dtype_option("dtype").value_or(call.dtype("self")), call.value("self")->shape(), value);
  };
}

// full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...)
void full_like_of(Call& call) {
  fill(call, call.dtype_option("dtype").value_or(call.dtype("self")), call.value("self")->shape(),
       call.number("fill_value"));
}

// new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...), new_ones(...), new_empty(...)
Handler new_filled(double value) {
  return [value](Call& call) {
    fill(call, call.dtype_option("dtype").value_or(call.dtype("self")), call.integers("size"), value);
  };
}

// new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...)
void new_full(Call& call) {
  fill(call, call.dtype_option("dtype").value_or(call.dtype("self")), call.integers("size"), call.number("fill_value"));
}

// scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...)
void scalar_tensor(Call& call) {
  fill(call, call.dtype_option("dtype").value_or(default_float()), {}, call.number("s"));
}

// arange(Scalar end, ...), arange.start(Scalar start, Scalar end, ...),
// arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...)
Handler arange(bool has_start, bool has_step) {
  return [has_start, has_step](Call& call) {
    bool integral = call.is_integral_scalar("end") && (!has_start || call.is_integral_scalar("start")) &&
                    (!has_step || call.is_integral_scalar("step"));
    ScalarType type = call.dtype_option("dtype").value_or(integral ? ScalarType::Long : default_float());
    double start = has_start ? call.number("start") : 0, end = call.number("end");
    double step = has_step ? call.number("step") : 1;
    if (step == 0 || (end - start) / step < 0) {
      throw UserError("[arange] step {} never leads from {} to {}; expected a step of the other sign.", step, start,
                      end);
    }
    // Of integers torch cuts off fractions; how many there are it asks the uncut numbers, but for int64.
    double count = (end - start) / step;
    if (!is_float(type)) start = std::trunc(start), step = std::trunc(step);
    if (step == 0) throw UserError("[arange] a step of {} is 0 as an integer.", call.number("step"));
    if (type == ScalarType::Long) count = (std::trunc(end) - start) / step;
    auto size = static_cast<std::int64_t>(std::ceil(count));
    call.result(build::iota(call.b, graph_dtype(type), size, start, step), type);
  };
}

// Evenly spaced numbers, counted from the nearer end as torch does.
std::vector<double> spaced(double start, double end, std::int64_t steps) {
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < steps; ++i) {
    numbers.push_back(i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                                  : end - step * static_cast<double>(steps - 1 - i));
  }
  return numbers;
}

// linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, ...)
// logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, ...)
Handler spacing(bool exponents) {
  return [exponents](Call& call) {
    ScalarType type = call.dtype_option("dtype").value_or(default_float());
    double start = call.number("start"), end = call.number("end");
    std::int64_t steps = call.integer("steps");
    if (!is_float(type) && steps > 1) start = std::trunc(start), end = std::trunc(end);
    std::vector<double> numbers = spaced(start, end, steps);
    if (exponents && !is_float(type)) {  // torch rounds these exponents to float32
      for (double& number : numbers) number = static_cast<float>(number);
    }
    if (exponents) {
      for (double& number : numbers) number = std::pow(call.number("base"), number);
    }
    Shape shape{static_cast<std::int64_t>(numbers.size())};
    call.result(constant(call.b, graph_dtype(type), std::move(shape), numbers).v, type);
  };
}

// eye(int n, *, ScalarType? dtype=None, ...), eye.m(int n, int m, *, ScalarType? dtype=None, ...)
void eye(Call& call) {
  ScalarType type = call.dtype_option("dtype").value_or(default_float());
  std::int64_t rows = call.integer("n"), columns = integer_or(call, "m", rows);
  Expr diagonal = positions(call.b, 2, 0, rows) == positions(call.b, 2, 1, columns);
  call.result(cast(diagonal, graph_dtype(type)).v, type);
}

// tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, ...), triu_indices(...)
Handler triangle_indices(bool lower) {
  return [lower](Call& call) {
    ScalarType type = call.dtype_option("dtype").value_or(ScalarType::Long);
    std::vector<double> rows, columns;
    for (std::int64_t r = 0; r < call.integer("row"); ++r) {
      for (std::int64_t c = 0; c < call.integer("col"); ++c) {
        if (lower ? c - r > call.integer("offset") : c - r < call.integer("offset")) continue;
        rows.push_back(static_cast<double>(r));
        columns.push_back(static_cast<double>(c));
      }
    }
    Shape shape{2, static_cast<std::int64_t>(rows.size())};
    rows.insert(rows.end(), columns.begin(), columns.end());
    call.result(constant(call.b, graph_dtype(type), std::move(shape), rows).v, type);
  };
}

}  // namespace

void register_creation(HandlerTable& table) {
  table.add("aten::zeros", filled(0));
  table.add("aten::ones", filled(1));
  table.add("aten::empty.memory_format", filled(0));
  table.add("aten::empty_strided", filled(0));
  table.add("aten::full", full_of);
  table.add("aten::zeros_like", filled_like(0));
  table.add("aten::ones_like", filled_like(1));
  table.add("aten::empty_like", filled_like(0));
  table.add("aten::full_like", full_like_of);
  table.add("aten::new_zeros", new_filled(0));
  table.add("aten::new_ones", new_filled(1));
  table.add("aten::new_empty", new_filled(0));
  table.add("aten::new_empty_strided", new_filled(0));
  table.add("aten::new_full", new_full);
  table.add("aten::scalar_tensor", scalar_tensor);
  table.add("aten::arange", arange(false, false));
  table.add("aten::arange.start", arange(true, false));
  table.add("aten::arange.start_step", arange(true, true));
  table.add("aten::linspace", spacing(false));
  table.add("aten::logspace", spacing(true));
  table.add("aten::eye", eye);
  table.add("aten::eye.m", eye);
  table.add("aten::tril_indices", triangle_indices(true));
  table.add("aten::triu_indices", triangle_indices(false));
}

}  // namespace poptorch
