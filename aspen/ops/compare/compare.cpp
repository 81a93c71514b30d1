// Comparisons: two inputs of one type, broadcast, to bool. No gradient.
#include "aspen/ops/infer.h"

namespace aspen {

void define_compare(OpRegistry& ops) {
  struct Row {
    const char* name;
    const char* summary;
  };
  constexpr Row kRows[] = {{"eq", "a == b"}, {"ne", "a != b; true if either is NaN."},
                           {"lt", "a < b"},  {"le", "a <= b"},
                           {"gt", "a > b"},  {"ge", "a >= b"}};
  for (const Row& row : kRows) {
    ops.define(row.name)
        .summary(row.summary)
        .input("a", "any type")
        .input("b", "type of a; shapes broadcast")
        .output("y", "bool, broadcast shape")
        .infer(elementwise_to_bool(ElementKind::kAny))
        .broadcasts()
        .quick()
        .example({.inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {5, 7}}}})
        .example({.inputs = {{DType::kF32, {2, 3, 4}}, {DType::kF32, {3, 1}}}})
        .example({.inputs = {{DType::kI32, {6, 7}}, {DType::kI32, {}}}, .int_low = -2, .int_high = 3})
        .example({.inputs = {{DType::kI32, {3, 37}}, {DType::kI32, {3, 1}}}, .int_low = -2, .int_high = 3})
        .example({.inputs = {{DType::kBool, {37}}, {DType::kBool, {37}}}})
        .example({.inputs = {{DType::kBool, {21}}, {DType::kBool, {5, 21}}}});
  }
}

}  // namespace aspen
