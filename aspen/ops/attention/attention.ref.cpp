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

void attention(const KernelCall& call) {
  const auto& attrs = call.attrs<AttentionAttrs>();
  const Shape &qs = call.in_type(0).shape, &ks = call.in_type(1).shape, &vs = call.in_type(2).shape;
  dispatch_floating(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *q = call.in<T>(0), *k = call.in<T>(1), *v = call.in<T>(2);
    T* y = call.out<T>(0);
    A* weights = call.workspace<A>();  // of one row

    auto score = [&](std::int64_t b, std::int64_t s, std::int64_t head, std::int64_t t) {
      A sum = 0;
      for (std::int64_t d = 0; d < qs[3]; ++d) {
        sum += static_cast<A>(q[place_of(qs, b, s, head, d)]) * static_cast<A>(k[place_of(ks, b, t, head, d)]);
      }
      sum *= static_cast<A>(attrs.scale);
      if (!call.has(3)) return sum;
      const std::int64_t place = mask_row(call.in_type(3).shape, qs, b, head, s) + t;
      if (call.in_type(3).dtype == DType::kBool) {  // read as bytes: a program file may hold any
        return call.in<std::uint8_t>(3)[place] != 0 ? static_cast<A>(attrs.fill) : sum;
      }
      return sum + static_cast<A>(call.in<T>(3)[place]);
    };
    auto row = [&](std::int64_t b, std::int64_t s, std::int64_t head) {
      A top = -std::numeric_limits<A>::infinity(), total = 0;
      for (std::int64_t t = 0; t < ks[1]; ++t) {
        weights[t] = score(b, s, head, t);
        top = std::max(top, weights[t]);
      }
      for (std::int64_t t = 0; t < ks[1]; ++t) {
        weights[t] = std::exp(weights[t] - top);
        total += weights[t];
      }
      for (std::int64_t e = 0; e < vs[3]; ++e) {
        A sum = 0;
        for (std::int64_t t = 0; t < ks[1]; ++t) {
          sum += weights[t] / total * static_cast<A>(v[place_of(vs, b, t, head, e)]);
        }
        y[place_of(call.out_type(0).shape, b, s, head, e)] = static_cast<T>(sum);
      }
    };
    for (std::int64_t b = 0; b < qs[0]; ++b) {
      for (std::int64_t s = 0; s < qs[1]; ++s) {
        for (std::int64_t head = 0; head < qs[2]; ++head) row(b, s, head);
      }
    }
  });
}

std::size_t one_row(const KernelRequest& request) {
  return static_cast<std::size_t>(request.inputs[1].type.shape[1]) * sizeof(double);
}

}  // namespace

void register_attention_ref(KernelRegistry& kernels) { kernels.add("attention", attention, one_row); }

}  // namespace aspen
