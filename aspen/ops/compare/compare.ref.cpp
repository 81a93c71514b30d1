#include "aspen/backends/reference/elementwise.h"

namespace aspen {

void register_compare_ref(KernelRegistry& kernels) {
  auto all = [](auto f) { return for_all<BinaryFunctions>(f); };
  add_binary(kernels, "eq", all([]<class T>(T x, T y) -> T { return T(x == y); }));
  add_binary(kernels, "ne", all([]<class T>(T x, T y) -> T { return T(x != y); }));
  add_binary(kernels, "lt", all([]<class T>(T x, T y) -> T { return T(x < y); }));
  add_binary(kernels, "le", all([]<class T>(T x, T y) -> T { return T(x <= y); }));
  add_binary(kernels, "gt", all([]<class T>(T x, T y) -> T { return T(x > y); }));
  add_binary(kernels, "ge", all([]<class T>(T x, T y) -> T { return T(x >= y); }));
}

}  // namespace aspen
