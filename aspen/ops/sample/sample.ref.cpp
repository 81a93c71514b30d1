#include "aspen/ops/sample/sample.h"

#include <algorithm>

#include "aspen/backends/api/kernel.h"
#include "aspen/base/error.h"
#include "aspen/ops/sample/pathwise.ref.h"
#include "aspen/ops/sample/samplers.ref.h"

namespace aspen {
namespace {

[[noreturn]] void fail_parameter(const KernelCall& call, const char* what, double value, std::int64_t element,
                                 const char* expected) {
  throw UserError("[{}] {} {} of element {} is not one of a distribution; expected {}.", call.request().op, what, value,
                  element, expected);
}

// The smallest normal number of a type.
template <class T>
constexpr double kSmallest = std::is_same_v<T, Half> ? 0x1p-14 : std::numeric_limits<T>::min();

// Calls draw(words, i) -> double for every element i of the output.
template <class Draw>
void for_each_variate(const KernelCall& call, Draw&& draw) {
  RandomStream stream(call.step(), call.attrs<SampleAttrs>().stream);
  std::int64_t n = call.out_type(0).numel();
  for (std::int64_t i = 0; i < n; ++i) draw(ElementWords(stream, i, n), i);
}

double checked_shape(const KernelCall& call, double alpha, std::int64_t i) {
  if (!(alpha >= 0) || std::isinf(alpha)) {
    fail_parameter(call, "shape parameter", alpha, i, "a finite number that is not negative");
  }
  return alpha;
}

// At least the smallest normal number, as PyTorch's: its logarithm is finite.
void random_gamma(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* alpha = call.in<T>(0);
    T* y = call.out<T>(0);
    for_each_variate(call, [&](ElementWords words, std::int64_t i) {
      double a = checked_shape(call, static_cast<double>(alpha[i]), i);
      y[i] = static_cast<T>(a == 0 ? kSmallest<T> : std::max(std::exp(log_gamma_variate(a, words)), kSmallest<T>));
    });
  });
}

// Gamma variates over their sum; in logarithms, so that no row is 0 / 0.
void random_dirichlet(const KernelCall& call) {
  std::int64_t classes = call.in_type(0).shape.back();
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* alpha = call.in<T>(0);
    T* y = call.out<T>(0);
    double* row = call.workspace<double>();
    double top = -std::numeric_limits<double>::infinity();
    for_each_variate(call, [&](ElementWords words, std::int64_t i) {
      std::int64_t place = i % classes;
      double a = static_cast<double>(alpha[i]);
      if (!(a > 0) || std::isinf(a)) fail_parameter(call, "concentration", a, i, "a finite positive number");
      row[place] = log_gamma_variate(a, words);
      top = place == 0 ? row[0] : std::max(top, row[place]);
      if (place + 1 != classes) return;
      double sum = 0;
      for (std::int64_t k = 0; k < classes; ++k) sum += row[k] = std::exp(row[k] - top);
      for (std::int64_t k = 0; k < classes; ++k) {
        y[i - place + k] = static_cast<T>(std::max(row[k] / sum, kSmallest<T>));
      }
    });
  });
}

void random_poisson(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_variate(call, [&](ElementWords words, std::int64_t i) {
      double rate = static_cast<double>(call.in<T>(0)[i]);
      if (!(rate >= 0) || std::isinf(rate)) {
        fail_parameter(call, "rate", rate, i, "a finite number that is not negative");
      }
      call.out<T>(0)[i] = static_cast<T>(poisson_variate(rate, words));
    });
  });
}

void random_binomial(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_variate(call, [&](ElementWords words, std::int64_t i) {
      double count = static_cast<double>(call.in<T>(0)[i]), p = static_cast<double>(call.in<T>(1)[i]);
      call.out<T>(0)[i] = static_cast<T>(binomial_variate(count, p, words));
    });
  });
}

// -- multinomial ------------------------------------------------------------------------------------------------

struct Candidate {
  double key;
  std::int32_t index;
};

std::size_t multinomial_workspace(const KernelRequest& request) {
  return static_cast<std::size_t>(request.inputs[0].type.shape.back()) * sizeof(Candidate);
}

template <class T>
void check_weights(const KernelCall& call, const T* weights, std::int64_t classes, std::int64_t row) {
  double sum = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    double weight = static_cast<double>(weights[k]);
    if (!(weight >= 0) || std::isinf(weight)) {
      fail_parameter(call, "weight", weight, row * classes + k, "a finite number that is not negative");
    }
    sum += weight;
  }
  if (sum <= 0) {
    throw UserError("[{}] the weights of row {} are all zero; expected at least one that is positive.",
                    call.request().op, row);
  }
}

// Where the weights summed up reach u times their total.
template <class T>
void draw_with_replacement(const T* weights, std::int64_t classes, Candidate* sums, std::int32_t* y, std::int64_t count,
                           const RandomStream& stream, std::int64_t first_block) {
  double sum = 0;
  std::int64_t used = 0;  // classes of weight 0 are never drawn
  for (std::int64_t k = 0; k < classes; ++k) {
    double weight = static_cast<double>(weights[k]);
    if (weight > 0) sums[used++] = {sum += weight, static_cast<std::int32_t>(k)};
  }
  for (std::int64_t i = 0; i < count; ++i) {
    PhiloxBlock word = stream.block(first_block + i);
    double wanted = open_unit(word[0], word[1]) * sum;
    auto found =
        std::lower_bound(sums, sums + used - 1, wanted, [](const Candidate& c, double u) { return c.key < u; });
    y[i] = found->index;
  }
}

// The classes whose exponential clocks of rate `weight` ring first, in that order (Efraimidis and Spirakis, "Weighted
// random sampling with a reservoir", 2006). A clock of weight 0 never rings: such classes come last.
template <class T>
void draw_without_replacement(const T* weights, std::int64_t classes, Candidate* clocks, std::int32_t* y,
                              std::int64_t count, const RandomStream& stream, std::int64_t first_block) {
  for (std::int64_t k = 0; k < classes; ++k) {
    PhiloxBlock word = stream.block(first_block + k);
    clocks[k] = {-std::log(open_unit(word[0], word[1])) / static_cast<double>(weights[k]),
                 static_cast<std::int32_t>(k)};
  }
  std::partial_sort(clocks, clocks + count, clocks + classes, [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  });
  for (std::int64_t i = 0; i < count; ++i) y[i] = clocks[i].index;
}

void random_multinomial(const KernelCall& call) {
  const auto& attrs = call.attrs<MultinomialAttrs>();
  RandomStream stream(call.step(), attrs.stream);
  std::int64_t classes = call.in_type(0).shape.back();
  std::int64_t rows = call.out_type(0).numel() / attrs.num_samples;
  std::int64_t blocks = attrs.replacement ? attrs.num_samples : classes;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* weights = call.in<T>(0) + row * classes;
      check_weights(call, weights, classes, row);
      auto draw = attrs.replacement ? draw_with_replacement<T> : draw_without_replacement<T>;
      draw(weights, classes, call.workspace<Candidate>(), call.out<std::int32_t>(0) + row * attrs.num_samples,
           attrs.num_samples, stream, row * blocks);
    }
  });
}

// -- gradients ----------------------------------------------------------------------------------------------------

void gamma_sample_grad(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0, n = call.out_type(0).numel(); i < n; ++i) {
      double alpha = static_cast<double>(call.in<T>(0)[i]), z = static_cast<double>(call.in<T>(1)[i]);
      call.out<T>(0)[i] = static_cast<T>(pathwise::gamma_gradient(alpha, z));
    }
  });
}

void beta_sample_grad(const KernelCall& call) {
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0, n = call.out_type(0).numel(); i < n; ++i) {
      auto in = [&](std::size_t input) { return static_cast<double>(call.in<T>(input)[i]); };
      call.out<T>(0)[i] = static_cast<T>(pathwise::beta_gradient(in(0), in(1), in(2)));
    }
  });
}

}  // namespace

void register_sample_ref(KernelRegistry& kernels) {
  kernels.add("random_gamma", random_gamma);
  kernels.add("random_dirichlet", random_dirichlet, [](const KernelRequest& request) {
    return static_cast<std::size_t>(request.inputs[0].type.shape.back()) * sizeof(double);
  });
  kernels.add("random_poisson", random_poisson);
  kernels.add("random_binomial", random_binomial);
  kernels.add("random_multinomial", random_multinomial, multinomial_workspace);
  kernels.add("gamma_sample_grad", gamma_sample_grad);
  kernels.add("beta_sample_grad", beta_sample_grad);
}

}  // namespace aspen
