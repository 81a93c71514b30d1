#include "aspen/ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

// Element (b, row, head, i) of a tensor (B, rows, H, size).
std::int64_t place_of(const Shape& shape, std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t i) {
  return ((b * shape[1] + row) * shape[2] + head) * shape[3] + i;
}

// Where the mask of row s of the scores begins, with q of shape (B, S, H, D).
std::int64_t mask_row(const Shape& mask, const Shape& q, std::int64_t b, std::int64_t head, std::int64_t s) {
  const std::int64_t sample = b / (q[0] / mask[0]), shared_head = head / (q[2] / mask[1]);
  return ((sample * mask[1] + shared_head) * mask[2] + (mask[2] == 1 ? 0 : s)) * mask[3];
}

// The score of a row of queries and a key, with the mask, which is operand `mask`.
template <class T>
class Scores {
 public:
  using A = Accumulator<T>;
  Scores(const KernelCall& call, std::size_t mask)
      : call_(call), attrs_(call.attrs<AttentionAttrs>()), q_(call.in<T>(0)), k_(call.in<T>(1)), mask_(mask) {}

  A operator()(std::int64_t b, std::int64_t s, std::int64_t head, std::int64_t t) const {
    const Shape &qs = call_.in_type(0).shape, &ks = call_.in_type(1).shape;
    A sum = 0;
    for (std::int64_t d = 0; d < qs[3]; ++d) {
      sum += static_cast<A>(q_[place_of(qs, b, s, head, d)]) * static_cast<A>(k_[place_of(ks, b, t, head, d)]);
    }
    sum *= static_cast<A>(attrs_.scale);
    if (!call_.has(mask_)) return sum;
    if (is_hidden(b, s, head, t)) return static_cast<A>(attrs_.fill);
    return hides() ? sum : sum + static_cast<A>(call_.in<T>(mask_)[place(b, s, head, t)]);
  }

  bool is_hidden(std::int64_t b, std::int64_t s, std::int64_t head, std::int64_t t) const {
    // Read as bytes: a program file may hold any.
    return hides() && call_.in<std::uint8_t>(mask_)[place(b, s, head, t)] != 0;
  }

 private:
  bool hides() const { return call_.has(mask_) && call_.in_type(mask_).dtype == DType::kBool; }
  std::int64_t place(std::int64_t b, std::int64_t s, std::int64_t head, std::int64_t t) const {
    return mask_row(call_.in_type(mask_).shape, call_.in_type(0).shape, b, head, s) + t;
  }

  const KernelCall& call_;
  const AttentionAttrs& attrs_;
  const T *q_, *k_;
  std::size_t mask_;
};

template <class F>
void for_each_row(const Shape& q, F&& row) {
  for (std::int64_t b = 0; b < q[0]; ++b) {
    for (std::int64_t s = 0; s < q[1]; ++s) {
      for (std::int64_t head = 0; head < q[2]; ++head) row(b, s, head);
    }
  }
}

void attention(const KernelCall& call) {
  const Shape &qs = call.in_type(0).shape, &vs = call.in_type(2).shape;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const Scores<T> score(call, 3);
    const T* v = call.in<T>(2);
    T* y = call.out<T>(0);
    A *tops = call.out<A>(1), *sums = call.out<A>(2), *weights = call.workspace<A>();  // of one row
    for_each_row(qs, [&](std::int64_t b, std::int64_t s, std::int64_t head) {
      A top = -std::numeric_limits<A>::infinity(), total = 0;
      for (std::int64_t t = 0; t < vs[1]; ++t) {
        weights[t] = score(b, s, head, t);
        top = std::max(top, weights[t]);
      }
      for (std::int64_t t = 0; t < vs[1]; ++t) {
        weights[t] = std::exp(weights[t] - top);
        total += weights[t];
      }
      const std::int64_t row = (b * qs[2] + head) * qs[1] + s;
      tops[row] = top;
      sums[row] = total;
      for (std::int64_t e = 0; e < vs[3]; ++e) {
        A sum = 0;
        for (std::int64_t t = 0; t < vs[1]; ++t) {
          sum += weights[t] / total * static_cast<A>(v[place_of(vs, b, t, head, e)]);
        }
        y[place_of(call.out_type(0).shape, b, s, head, e)] = static_cast<T>(sum);
      }
    });
  });
}

// How the weights of a row are found again, and their gradients.
template <class T>
class WeightGradients {
 public:
  using A = Accumulator<T>;
  explicit WeightGradients(const KernelCall& call)
      : call_(call), score_(call, 6), v_(call.in<T>(2)), g_(call.in<T>(5)), tops_(call.in<A>(3)), sums_(call.in<A>(4)) {
  }

  // The weights of a row, and the gradients by its products of q and k.
  void operator()(std::int64_t b, std::int64_t s, std::int64_t head, A* weights, A* products) const {
    const Shape &qs = call_.in_type(0).shape, &vs = call_.in_type(2).shape;
    const std::int64_t row = (b * qs[2] + head) * qs[1] + s;
    A mean = 0;
    for (std::int64_t t = 0; t < vs[1]; ++t) {
      weights[t] = std::exp(score_(b, s, head, t) - tops_[row]) / sums_[row];
      products[t] = of_weight(b, s, head, t);
      mean += weights[t] * products[t];
    }
    const A scale = static_cast<A>(call_.attrs<AttentionAttrs>().scale);
    for (std::int64_t t = 0; t < vs[1]; ++t) {
      products[t] = score_.is_hidden(b, s, head, t) ? 0 : weights[t] * (products[t] - mean) * scale;
    }
  }

 private:
  A of_weight(std::int64_t b, std::int64_t s, std::int64_t head, std::int64_t t) const {
    const Shape &vs = call_.in_type(2).shape, &ys = call_.in_type(5).shape;
    A sum = 0;
    for (std::int64_t e = 0; e < vs[3]; ++e) {
      sum += static_cast<A>(g_[place_of(ys, b, s, head, e)]) * static_cast<A>(v_[place_of(vs, b, t, head, e)]);
    }
    return sum;
  }

  const KernelCall& call_;
  Scores<T> score_;
  const T *v_, *g_;
  const A *tops_, *sums_;
};

void attention_grad(const KernelCall& call) {
  const Shape &qs = call.in_type(0).shape, &ks = call.in_type(1).shape, &vs = call.in_type(2).shape;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *q = call.in<T>(0), *k = call.in<T>(1), *g = call.in<T>(5);
    A *weights = call.workspace<A>(), *products = weights + qs[1] * ks[1];  // of one head
    const WeightGradients<T> gradients(call);
    auto write = [&](T* to, const Shape& shape, std::int64_t b, std::int64_t head, auto&& value) {
      for (std::int64_t row = 0; row < shape[1]; ++row) {
        for (std::int64_t i = 0; i < shape[3]; ++i)
          to[place_of(shape, b, row, head, i)] = static_cast<T>(value(row, i));
      }
    };
    for (std::int64_t b = 0; b < qs[0]; ++b) {
      for (std::int64_t head = 0; head < qs[2]; ++head) {
        for (std::int64_t s = 0; s < qs[1]; ++s) gradients(b, s, head, weights + s * ks[1], products + s * ks[1]);
        // Sum over the keys, or over the rows of queries, of one of these times another operand.
        write(call.out<T>(0), qs, b, head, [&](std::int64_t s, std::int64_t d) {
          A sum = 0;
          for (std::int64_t t = 0; t < ks[1]; ++t) {
            sum += products[s * ks[1] + t] * static_cast<A>(k[place_of(ks, b, t, head, d)]);
          }
          return sum;
        });
        auto over_rows = [&](const A* of_scores, const T* operand, const Shape& shape, std::int64_t t, std::int64_t i) {
          A sum = 0;
          for (std::int64_t s = 0; s < qs[1]; ++s) {
            sum += of_scores[s * ks[1] + t] * static_cast<A>(operand[place_of(shape, b, s, head, i)]);
          }
          return sum;
        };
        write(call.out<T>(1), ks, b, head,
              [&](std::int64_t t, std::int64_t d) { return over_rows(products, q, qs, t, d); });
        write(call.out<T>(2), vs, b, head,
              [&](std::int64_t t, std::int64_t e) { return over_rows(weights, g, call.in_type(5).shape, t, e); });
      }
    }
  });
}

std::size_t one_row(const KernelRequest& request) {
  return static_cast<std::size_t>(request.inputs[1].type.shape[1]) * sizeof(double);
}

std::size_t two_heads(const KernelRequest& request) {
  return 2 * static_cast<std::size_t>(request.inputs[0].type.shape[1]) * one_row(request);
}

}  // namespace

void register_attention_ref(KernelRegistry& kernels) {
  kernels.add("attention", attention, one_row);
  kernels.add("attention_grad", attention_grad, two_heads);
}

}  // namespace aspen
