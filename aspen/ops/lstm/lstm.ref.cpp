#include <cmath>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

template <class A>
A sigmoid(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

// f(row, column) for every element of a state.
template <class F>
void for_each_state(const TensorType& gates, F&& f) {
  for (std::int64_t row = 0; row < gates.shape[0]; ++row) {
    for (std::int64_t column = 0; column < gates.shape[1] / 4; ++column) f(row, column);
  }
}

void lstm_gates(const KernelCall& call) {
  const TensorType& type = call.in_type(0);
  const std::int64_t width = type.shape[1] / 4;
  dispatch_floating(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *a = call.in<T>(0), *b = call.in<T>(1), *bias = call.has(2) ? call.in<T>(2) : nullptr, *c = call.in<T>(3);
    T *h = call.out<T>(0), *next = call.out<T>(1), *gates = call.out<T>(2);
    for_each_state(type, [&](std::int64_t row, std::int64_t column) {
      auto gate = [&](std::int64_t part) {
        const std::int64_t place = (4 * row + part) * width + column;
        A z = static_cast<A>(a[place]) + static_cast<A>(b[place]);
        if (bias != nullptr) z += static_cast<A>(bias[part * width + column]);
        const A active = part == 2 ? std::tanh(z) : sigmoid(z);
        gates[place] = static_cast<T>(active);
        return active;
      };
      const std::int64_t state = row * width + column;
      const A i = gate(0), f = gate(1), g = gate(2), o = gate(3);
      const A cell = f * static_cast<A>(c[state]) + i * g;
      next[state] = static_cast<T>(cell);
      h[state] = static_cast<T>(o * std::tanh(cell));
    });
  });
}

void lstm_gates_grad(const KernelCall& call) {
  const TensorType& type = call.in_type(0);
  const std::int64_t width = type.shape[1] / 4;
  dispatch_floating(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *gates = call.in<T>(0), *c = call.in<T>(1);
    const T *dh = call.has(2) ? call.in<T>(2) : nullptr, *dnext = call.has(3) ? call.in<T>(3) : nullptr;
    T *dgates = call.out<T>(0), *dc = call.out<T>(1);
    for_each_state(type, [&](std::int64_t row, std::int64_t column) {
      auto place = [&](std::int64_t part) { return (4 * row + part) * width + column; };
      auto gate = [&](std::int64_t part) { return static_cast<A>(gates[place(part)]); };
      const std::int64_t state = row * width + column;
      const A i = gate(0), f = gate(1), g = gate(2), o = gate(3), cell = static_cast<A>(c[state]);
      const A t = std::tanh(f * cell + i * g);
      const A of_h = dh != nullptr ? static_cast<A>(dh[state]) : A(0);
      const A d = (dnext != nullptr ? static_cast<A>(dnext[state]) : A(0)) + of_h * o * (A(1) - t * t);
      dgates[place(0)] = static_cast<T>(d * g * i * (A(1) - i));
      dgates[place(1)] = static_cast<T>(d * cell * f * (A(1) - f));
      dgates[place(2)] = static_cast<T>(d * i * (A(1) - g * g));
      dgates[place(3)] = static_cast<T>(of_h * t * o * (A(1) - o));
      dc[state] = static_cast<T>(d * f);
    });
  });
}

}  // namespace

void register_lstm_ref(KernelRegistry& kernels) {
  kernels.add("lstm_gates", lstm_gates);
  kernels.add("lstm_gates_grad", lstm_gates_grad);
}

}  // namespace aspen
