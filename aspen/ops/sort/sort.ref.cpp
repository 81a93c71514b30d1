#include "aspen/ops/sort/sort.h"

#include <algorithm>
#include <numeric>

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/api/strided_rows.h"

namespace aspen {
namespace {

// Sorts positions in the workspace. Ties are broken by position: stable, and std::sort needs no memory of its own.
void sort(const KernelCall& call) {
  const auto& attrs = call.attrs<SortAttrs>();
  AxisLines lines(call.in_type(0).shape, attrs.axis, "sort");
  std::int64_t wanted = attrs.wanted(lines.size);
  auto* order = call.workspace<std::int32_t>();
  dispatch(call.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* x = call.in<T>(0);
    T* values = call.out<T>(0);
    std::int32_t* indices = call.out<std::int32_t>(1);
    lines.for_each([&](std::int64_t number, std::int64_t base) {
      auto at = [&](std::int32_t k) { return static_cast<A>(x[base + k * lines.inner]); };
      auto less = [](A a, A b) { return a < b || (b != b && a == a); };
      std::iota(order, order + lines.size, 0);
      std::sort(order, order + lines.size, [&](std::int32_t i, std::int32_t j) {
        A a = at(i), b = at(j);
        if (less(a, b)) return !attrs.descending;
        if (less(b, a)) return attrs.descending;
        return i < j;
      });
      std::int64_t to = number / lines.inner * wanted * lines.inner + number % lines.inner;
      for (std::int64_t k = 0; k < wanted; ++k) {
        values[to + k * lines.inner] = x[base + order[k] * lines.inner];
        indices[to + k * lines.inner] = order[k];
      }
    });
  });
}

std::size_t workspace(const KernelRequest& request) {
  AxisLines lines(request.inputs[0].type.shape, request.attrs.as<SortAttrs>().axis, "sort");
  return static_cast<std::size_t>(lines.size) * sizeof(std::int32_t);
}

}  // namespace

void register_sort_ref(KernelRegistry& kernels) { kernels.add("sort", sort, workspace); }

}  // namespace aspen
