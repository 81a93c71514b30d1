#include "aspen/ops/optimizer/optimizer.h"

#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

// lr, weight decay, momentum or beta1, dampening or beta2, epsilon, loss scaling, max weight norm
std::vector<float> settings(float decay, float third, float fourth) {
  return {0.05f, decay, third, fourth, 1e-8f, 1, 10};
}

// Of a parameter (and its gradient) and of its states.
struct Precision {
  DType parameter, state;
};

void compare_update(const std::string& op, const Attrs& attrs, std::size_t states, std::vector<float> group, float step,
                    Precision precision) {
  auto reference = make_reference_backend();
  TensorType parameter{precision.parameter, {1203}}, state{precision.state, {1203}};
  InputTypes types = {parameter, parameter, f32({kNumSettings}), f32({})};
  types.insert(types.end(), states, state);
  KernelRequest request = request_of(op, attrs, types);
  std::mt19937 random(3);
  std::vector<Buffer> buffers;
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    buffers.push_back(random_buffer(*types[i], random, i >= 4 ? 0 : -1, 1, 2));
    inputs.push_back(buffers.back().get());
  }
  inputs[2] = group.data();
  inputs[3] = &step;
  auto expected = run_kernel(*reference, request, inputs), actual = run_kernel(tuned_backend(), request, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double tolerance = request.outputs[i].dtype == DType::kF16 ? 1.0 / 1024 : 3e-7;
    expect_close(request.outputs[i], expected[i], actual[i], tolerance, to_string(request));
  }
}

void compare_update(const std::string& op, const Attrs& attrs, std::size_t states, const std::vector<float>& group,
                    float step) {
  for (Precision precision : {Precision{DType::kF32, DType::kF32},
                              {DType::kF16, DType::kF32},
                              {DType::kF32, DType::kF16},
                              {DType::kF16, DType::kF16}}) {
    compare_update(op, attrs, states, group, step, precision);
  }
}

TEST(Optimizer, SgdInAllItsForms) {
  for (float decay : {0.0f, 0.01f}) {
    compare_update("sgd", Attrs::of(SgdAttrs{}), 0, settings(decay, 0, 0), 4);
    for (float step : {0.0f, 4.0f}) {
      for (bool nesterov : {false, true}) {
        compare_update("sgd", Attrs::of(SgdAttrs{true, nesterov}), 1, settings(decay, 0.9f, 0.1f), step);
        compare_update("sgd", Attrs::of(SgdAttrs{true, nesterov}), 1, settings(decay, 0, 0), step);
      }
    }
  }
}

TEST(Optimizer, SgdOfOneGradientForManyElements) {
  CompareOptions positive{.low = 0.1, .high = 0.9};
  TensorType w = f32({70, 90}), settings = f32({kNumSettings}), step = f32({});
  for (const Shape& shape : {Shape{}, Shape{90}, Shape{70, 1}}) {
    for (DType type : {DType::kF32, DType::kF16}) {
      TensorType g{type, shape};
      compare("sgd", Attrs::of(SgdAttrs{}), {w, g, settings, step}, positive);
      compare("sgd", Attrs::of(SgdAttrs{true, true}), {w, g, settings, step, w}, positive);
    }
  }
}

TEST(Optimizer, AdamInAllItsForms) {
  for (float decay : {0.0f, 0.01f}) {
    for (bool decoupled : {false, true}) {
      for (bool correction : {false, true}) {
        compare_update("adam", Attrs::of(AdamAttrs{decoupled, correction}), 2, settings(decay, 0.9f, 0.999f), 6);
      }
    }
  }
}

TEST(Optimizer, SquareSum) {
  compare("square_sum", Attrs(), {f32({10007})});
  compare("square_sum", Attrs(), {f16({10007})});
}

}  // namespace
}  // namespace aspen::testing
