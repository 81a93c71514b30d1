// lstm_gates and its gradient, with and without what is optional, beside the reference.
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

TEST(LstmGates, OfEveryWidthMatchTheReference) {
  for (std::int64_t width : {1, 7, 16, 33, 256}) {
    const TensorType gates = f32({5, 4 * width}), state = f32({5, width});
    for (double size : {1.0, 20.0}) {
      const CompareOptions options{.low = -size, .high = size};
      compare("lstm_gates", {}, {gates, gates, f32({4 * width}), state}, options);
      compare("lstm_gates", {}, {gates, gates, std::nullopt, state}, options);
    }
    compare("lstm_gates_grad", {}, {gates, state, state, state});
    compare("lstm_gates_grad", {}, {gates, state, std::nullopt, state});
    compare("lstm_gates_grad", {}, {gates, state, state, std::nullopt});
  }
}

}  // namespace
}  // namespace aspen::testing
