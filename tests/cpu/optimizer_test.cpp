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
    // A mean of squares is more than the square of the mean; were it about as much, a variance would be rounding alone.
    const double least = op == "rmsprop" && i == 4 ? 2 : i >= 4 ? 0 : -1;
    buffers.push_back(random_buffer(*types[i], random, least, std::max(least + 1, 1.0), 2));
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

TEST(Optimizer, RmspropInAllItsForms) {
  for (float decay : {0.0f, 0.01f}) {
    for (int form = 0; form < 8; ++form) {
      const RmspropAttrs attrs{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0};
      const std::size_t states = 1 + (attrs.centered ? 1 : 0) + (attrs.momentum ? 1 : 0);
      compare_update("rmsprop", Attrs::of(attrs), states, settings(decay, 0.9f, 0.99f), 4);
    }
  }
}

TEST(Optimizer, LambInAllItsForms) {
  for (float decay : {0.0f, 0.01f}) {
    for (bool correction : {false, true}) {
      compare_update("lamb", Attrs::of(LambAttrs{correction}), 2, settings(decay, 0.9f, 0.999f), 6);
    }
  }
}

TEST(Optimizer, LambOfShards) {
  const TensorType w = f32({401}), norms{DType::kF64, {2}};
  const InputTypes types{w, w, f32({kNumSettings}), f32({}), w, w};
  const Attrs attrs = Attrs::of(LambNormsAttrs{true, 1201, 3});
  CompareOptions positive{.low = 0.1, .high = 0.9};
  compare("lamb_norms", attrs, types, positive);
  // The last shard ends with padding, which counts for nothing.
  std::mt19937 random(3);
  std::vector<Buffer> buffers;
  std::vector<const void*> inputs;
  for (const auto& type : types) {
    buffers.push_back(random_buffer(*type, random, 0.1, 0.9, 2));
    inputs.push_back(buffers.back().get());
  }
  const KernelRequest request = request_of("lamb_norms", attrs, types);
  for (std::uint32_t replica : {0u, 2u}) {
    const StepContext step{.replica = replica};
    const Buffer expected = std::move(run_kernel(*make_reference_backend(), request, inputs, step)[0]);
    const Buffer found = std::move(run_kernel(tuned_backend(), request, inputs, step)[0]);
    for (int i : {0, 1}) EXPECT_NEAR(found.as<double>()[i], expected.as<double>()[i], 1e-6 * expected.as<double>()[i]);
  }
  InputTypes with_norms = types;
  with_norms.emplace_back(norms);
  compare("lamb_step", Attrs::of(LambAttrs{true}), with_norms, positive);
}

TEST(Optimizer, SquareSum) {
  compare("square_sum", Attrs(), {f32({10007})});
  compare("square_sum", Attrs(), {f16({10007})});
}

}  // namespace
}  // namespace aspen::testing
