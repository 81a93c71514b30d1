// Short forms for the tests beside the ops: tensors from literals, one op or its gradient on the reference backend, the
// text of the error a wrong use earns.
#pragma once

#include <functional>
#include <string>

#include "aspen/backends/reference/reference_backend.h"
#include "tests/support/interpret.h"

namespace aspen::testing {

using Numbers = std::vector<double>;

inline HostTensor f32(Shape shape, const Numbers& numbers) {
  return HostTensor({DType::kF32, std::move(shape)}, numbers);
}
inline HostTensor f16(Shape shape, const Numbers& numbers) {
  return HostTensor({DType::kF16, std::move(shape)}, numbers);
}
inline HostTensor bf16(Shape shape, const Numbers& numbers) {
  return HostTensor({DType::kBF16, std::move(shape)}, numbers);
}
inline HostTensor i32(Shape shape, const Numbers& numbers) {
  return HostTensor({DType::kI32, std::move(shape)}, numbers);
}

inline const Backend& reference() {
  static const std::unique_ptr<Backend> backend = make_reference_backend();
  return *backend;
}

template <class A = NoAttrs>
std::vector<HostTensor> apply(std::string_view op, const std::vector<HostTensor>& inputs, A attrs = {}) {
  return run_op(reference(), op, inputs, Attrs::of(std::move(attrs)));
}

template <class A = NoAttrs>
std::vector<HostTensor> differentiate(std::string_view op, const std::vector<HostTensor>& inputs,
                                      const std::vector<HostTensor>& output_gradients, A attrs = {}) {
  return run_gradient(reference(), op, inputs, output_gradients, Attrs::of(std::move(attrs)));
}

// The message of the UserError the call ends in; "" when it does not.
inline std::string user_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace aspen::testing
