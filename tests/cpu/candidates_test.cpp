// Every candidate that says it can compute a request does, with the same bits on any number of threads: whichever the
// clock chooses is right.
#include <cstring>

#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/runtime/thread_team.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

const Backend& cpu() {
  static const auto backend = make_cpu_backend();
  return *backend;
}

// How many candidates computed it.
int check_candidates(const KernelRequest& request, double tolerance = 4e-6) {
  static const auto reference = make_reference_backend();
  static const auto two = make_thread_team(2), seven = make_thread_team(7);
  std::mt19937 random(7);
  std::vector<Buffer> buffers;
  std::vector<const void*> inputs;
  for (const KernelInput& input : request.inputs) {
    if (input.present) buffers.push_back(random_buffer(input.type, random, -1, 1, 2));
    inputs.push_back(input.present ? buffers.back().get() : nullptr);
  }
  const std::vector<Buffer> expected = run_kernel(*reference, request, inputs);
  int count = 0;
  for (const CandidateOpinion& opinion : cpu().candidates(request)) {
    KernelRequest named = request;
    named.candidate = opinion.name;
    if (opinion.fit == Fit::kNone) {
      EXPECT_THROW(cpu().create_kernel(named), UserError) << opinion.name << ", " << to_string(request);
      continue;
    }
    try {
      cpu().create_kernel(named);
    } catch (const UserError&) {
      EXPECT_EQ(opinion.name, "onednn 2") << "only oneDNN may find out late";
      continue;
    }
    ++count;
    const std::vector<Buffer> alone = run_kernel(cpu(), named, inputs);
    expect_close(request.outputs[0], expected[0], alone[0], tolerance, opinion.name + ", " + to_string(request));
    for (ThreadTeam* team : {two.get(), seven.get()}) {
      const std::vector<Buffer> shared = run_kernel(cpu(), named, inputs, {.team = team});
      EXPECT_EQ(std::memcmp(alone[0].get(), shared[0].get(), request.outputs[0].bytes()), 0)
          << opinion.name << ", " << to_string(request) << " with " << team->num_threads() << " threads";
    }
  }
  return count;
}

ConvAttrs plane(std::int64_t stride, std::int64_t padding, std::int64_t groups = 1) {
  return {.stride = {stride, stride}, .padding = {padding, padding}, .dilation = {1, 1}, .groups = groups};
}

// Of a convolution and of both its gradients, the largest number of candidates that computed one.
int check_conv(const ConvAttrs& attrs, const Shape& x, const Shape& w, DType type = DType::kF32,
               double tolerance = 4e-6) {
  const KernelRequest forward = request_of("conv", Attrs::of(attrs), {TensorType{type, x}, TensorType{type, w}});
  const TensorType y = forward.outputs[0];
  const auto gradient = [&](const Shape& shape) { return Attrs::of(ConvGradAttrs{.conv = attrs, .shape = shape}); };
  return std::max({check_candidates(forward, tolerance),
                   check_candidates(request_of("conv_input_grad", gradient(x), {y, TensorType{type, w}}), tolerance),
                   check_candidates(request_of("conv_weight_grad", gradient(w), {TensorType{type, x}, y}), tolerance)});
}

TEST(Candidates, AllComputeConvolutions) {
  EXPECT_GE(check_conv(plane(1, 1), {16, 12, 13, 11}, {20, 12, 3, 3}), 2);
  EXPECT_GE(check_conv(plane(2, 0), {2, 24, 9, 9}, {40, 24, 1, 1}), 3);
  EXPECT_GE(check_conv(plane(1, 1), {2, 64, 5, 5}, {64, 64, 3, 3}), 4);
  EXPECT_GE(check_conv(plane(1, 1), {1, 130, 6, 6}, {150, 130, 3, 3}), 3);  // fewer parts than threads: slices
  EXPECT_GE(check_conv(plane(2, 1, 8), {3, 8, 12, 10}, {8, 1, 3, 3}), 2);
  EXPECT_GE(check_conv(plane(1, 1, 2), {3, 32, 8, 8}, {32, 16, 3, 3}), 1);
}

TEST(Candidates, AllComputeConvolutionsInHalf) {
  EXPECT_GE(check_conv(plane(1, 1), {2, 32, 5, 5}, {32, 32, 3, 3}, DType::kF16, 2e-3), 2);
}

// Whether a relu is fused into a convolution may depend on the placement; the choice must not.
TEST(Candidates, WhatIsFusedIntoAConvolutionDoesNotDecide) {
  const TensorType x = f32({16, 8, 12, 10}), w = f32({12, 8, 3, 3}), channels = f32({12});
  const KernelRequest plain = request_of("conv", Attrs::of(plane(1, 1)), {x, w});
  const KernelRequest biased = request_of("conv", Attrs::of(plane(1, 1)), {x, w, channels});
  const Attrs relu = Attrs::of(ConvAffineAttrs{.conv = plane(1, 1), .low = 0});
  const std::optional<TensorType> none;
  EXPECT_EQ(cpu().decisive(request_of("conv_affine", relu, {x, w, none, none, none, none})), cpu().decisive(plain));
  EXPECT_EQ(cpu().decisive(request_of("conv_affine", relu, {x, w, channels, none, none, none})), biased);
  EXPECT_GE(check_candidates(request_of("conv_affine", relu, {x, w, channels, none, none, none})), 2);
}

TEST(Candidates, AllComputeProducts) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      const Attrs attrs = Attrs::of(DotAttrs{.transpose_a = transpose_a, .transpose_b = transpose_b});
      for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{37, 65, 41}, {130, 300, 140}, {3, 200, 500}}) {
        const Shape a = transpose_a ? Shape{k, m} : Shape{m, k}, b = transpose_b ? Shape{n, k} : Shape{k, n};
        EXPECT_EQ(check_candidates(request_of("dot", attrs, {f32(a), f32(b)})), transpose_a != transpose_b ? 3 : 2);
        EXPECT_GE(check_candidates(request_of("dot", attrs, {f16(a), f16(b)}), 2e-3), 1);
        EXPECT_TRUE(cpu().candidates(request_of("dot", attrs, {bf16(a), bf16(b)})).empty());  // these go by rule
      }
    }
  }
}

TEST(Candidates, ThoseByRuleAreTheBest) {
  const KernelRequest request = request_of("conv", Attrs::of(plane(1, 0)), {f32({2, 24, 9, 9}), f32({40, 24, 1, 1})});
  const std::vector<CandidateOpinion> opinions = cpu().candidates(request);
  ASSERT_EQ(opinions.size(), 8u);
  EXPECT_EQ(opinions[0].name, "pointwise");
  EXPECT_EQ(opinions[0].fit, Fit::kBest);
  EXPECT_EQ(opinions[6].name, "onednn");
  EXPECT_EQ(opinions[6].fit, Fit::kClose);
  for (const CandidateOpinion& opinion : opinions) EXPECT_NE(opinion.why, "");
}

Fit fit_of(std::string_view candidate, const Shape& x, const Shape& w, const ConvAttrs& attrs) {
  const KernelRequest request = request_of("conv", Attrs::of(attrs), {f32(x), f32(w)});
  for (const CandidateOpinion& opinion : cpu().candidates(request)) {
    if (opinion.name == candidate) return opinion.fit;
  }
  return Fit::kNone;
}

// Fewer products pay where channels and pixels are many.
TEST(Candidates, WinogradTakesLargeConvolutions) {
  auto fit = [](const Shape& x, const Shape& w, const ConvAttrs& attrs) { return fit_of("winograd", x, w, attrs); };
  EXPECT_EQ(fit({8, 64, 56, 56}, {64, 64, 3, 3}, plane(1, 1)), Fit::kBest);
  EXPECT_EQ(fit({4, 512, 7, 7}, {512, 512, 3, 3}, plane(1, 1)), Fit::kBest);
  EXPECT_EQ(fit({1, 512, 7, 7}, {512, 512, 3, 3}, plane(1, 1)), Fit::kPoor);
  EXPECT_EQ(fit({8, 512, 2, 2}, {512, 512, 3, 3}, plane(1, 1)), Fit::kPoor);
  EXPECT_EQ(fit({8, 16, 56, 56}, {64, 16, 3, 3}, plane(1, 1)), Fit::kPoor);
  EXPECT_EQ(fit({8, 64, 56, 56}, {64, 64, 3, 3}, plane(2, 1)), Fit::kNone);
  EXPECT_EQ(fit({8, 64, 56, 56}, {64, 64, 3, 3}, plane(1, 3)), Fit::kNone);
  EXPECT_EQ(fit({8, 64, 56, 56}, {64, 64, 5, 5}, plane(1, 2)), Fit::kNone);
  EXPECT_EQ(fit({8, 64, 56, 56}, {64, 32, 3, 3}, plane(1, 1, 2)), Fit::kNone);
}

// Weights as they lie pay where they are many.
TEST(Candidates, UnfoldedTakesManyWeightsAndFewPixels) {
  auto fit = [](const char* op, const Shape& x, const Shape& w, const ConvAttrs& attrs, bool stays = false) {
    KernelRequest request = request_of("conv", Attrs::of(attrs), {f32(x), f32(w)});
    if (std::string_view(op) == "conv_input_grad") {
      request = request_of(op, Attrs::of(ConvGradAttrs{.conv = attrs, .shape = x}), {request.outputs[0], f32(w)});
    }
    request.inputs[1].stays = stays;
    for (const CandidateOpinion& opinion : cpu().candidates(request)) {
      if (opinion.name == "unfolded") return opinion.fit;
    }
    return Fit::kNone;
  };
  for (const char* op : {"conv", "conv_input_grad"}) {
    EXPECT_EQ(fit(op, {8, 512, 2, 2}, {512, 512, 3, 3}, plane(1, 1)), Fit::kBest) << op;
    EXPECT_EQ(fit(op, {8, 256, 4, 4}, {512, 256, 3, 3}, plane(2, 1)), Fit::kBest) << op;
    EXPECT_EQ(fit(op, {8, 256, 4, 4}, {256, 256, 3, 3}, plane(1, 1)), Fit::kPoor) << op;
    EXPECT_EQ(fit(op, {1, 512, 7, 7}, {512, 512, 3, 3}, plane(1, 1)), Fit::kBest) << op;
    EXPECT_EQ(fit(op, {1, 128, 7, 7}, {128, 128, 3, 3}, plane(1, 1)), Fit::kClose) << op;
    EXPECT_EQ(fit(op, {1, 512, 2, 2}, {512, 512, 3, 3}, plane(1, 1)), Fit::kPoor) << op;
    EXPECT_EQ(fit(op, {8, 8, 2, 2}, {8, 8, 3, 3}, plane(1, 1)), Fit::kBest) << op;
    EXPECT_EQ(fit(op, {8, 512, 2, 2}, {512, 256, 3, 3}, plane(1, 1, 2)), Fit::kNone) << op;
  }
  EXPECT_EQ(fit("conv", {8, 128, 8, 8}, {256, 128, 3, 3}, plane(2, 1)), Fit::kPoor);
  EXPECT_EQ(fit("conv_input_grad", {8, 128, 8, 8}, {256, 128, 3, 3}, plane(2, 1)), Fit::kBest);
  EXPECT_EQ(fit("conv", {8, 512, 2, 2}, {512, 512, 3, 3}, plane(1, 1), true), Fit::kPoor);
}

// Lanes along channels pay where planes are small.
TEST(Candidates, PanelsTakeSmallPlanes) {
  auto fit = [](const Shape& x, const Shape& w, const ConvAttrs& attrs) { return fit_of("panels", x, w, attrs); };
  EXPECT_EQ(fit({1, 512, 7, 7}, {512, 512, 3, 3}, plane(1, 1)), Fit::kBest);
  EXPECT_EQ(fit({8, 64, 32, 32}, {64, 64, 3, 3}, plane(2, 1)), Fit::kBest);
  EXPECT_EQ(fit({8, 64, 33, 32}, {64, 64, 3, 3}, plane(2, 1)), Fit::kPoor);
  EXPECT_EQ(fit({4, 3, 224, 224}, {192, 3, 16, 16}, plane(16, 0)), Fit::kPoor);
  EXPECT_EQ(fit({16, 128, 14, 14}, {64, 128, 3, 3}, plane(2, 1)), Fit::kBest);
  EXPECT_EQ(fit({16, 128, 28, 28}, {64, 128, 3, 3}, plane(2, 1)), Fit::kPoor);
  EXPECT_EQ(fit({8, 256, 5, 5}, {64, 256, 1, 1}, plane(1, 0)), Fit::kBest);
  EXPECT_EQ(fit({8, 256, 6, 6}, {64, 256, 1, 1}, plane(1, 0)), Fit::kPoor);
  EXPECT_EQ(fit({8, 7, 7, 7}, {64, 7, 3, 3}, plane(2, 1)), Fit::kPoor);
  EXPECT_EQ(fit({8, 256, 7, 7}, {72, 256, 3, 3}, plane(2, 1)), Fit::kNone);
  EXPECT_EQ(fit({8, 64, 7, 7}, {64, 32, 3, 3}, plane(1, 1, 2)), Fit::kNone);
}

// In inference weights are turned, and transformed, once.
TEST(Candidates, WeightsThatStayArePacked) {
  auto best = [](KernelRequest request, bool stays) {
    request.inputs[1].stays = stays;
    for (const CandidateOpinion& opinion : cpu().candidates(request)) {
      if (opinion.fit == Fit::kBest) return opinion.name;
    }
    return std::string();
  };
  const Attrs linear = Attrs::of(DotAttrs{.transpose_b = true});
  for (std::int64_t rows : {2, 8, 32}) {
    const KernelRequest dot = request_of("dot", linear, {f32({rows, 512}), f32({1024, 512})});
    EXPECT_EQ(best(dot, false), "own");
    EXPECT_EQ(best(dot, true), "turned");
    EXPECT_EQ(check_candidates(dot), 3);
  }
  EXPECT_EQ(best(request_of("dot", linear, {f32({1, 512}), f32({1024, 512})}), true), "vector");
  EXPECT_EQ(best(request_of("dot", linear, {f32({8, 512}), f32({10, 512})}), true), "own");
  EXPECT_EQ(best(request_of("dot", Attrs::of(DotAttrs{}), {f32({8, 512}), f32({512, 1024})}), true), "own");
  const KernelRequest conv = request_of("conv", Attrs::of(plane(1, 1)), {f32({1, 256, 7, 7}), f32({256, 256, 3, 3})});
  EXPECT_EQ(best(conv, false), "unfolded");
  EXPECT_EQ(best(conv, true), "winograd");
  const KernelRequest deep = request_of("conv", Attrs::of(plane(1, 1)), {f32({1, 512, 7, 7}), f32({512, 512, 3, 3})});
  EXPECT_EQ(best(deep, false), "unfolded");
  EXPECT_EQ(best(deep, true), "winograd");
}

TEST(Candidates, ARequestForAnotherIsRefused) {
  KernelRequest request = request_of("dot", Attrs::of(DotAttrs{}), {f32({4, 4}), f32({4, 4})});
  request.candidate = "unheard of";
  EXPECT_THROW(cpu().create_kernel(request), UserError);
  KernelRequest pointwise = request_of("neg", {}, {f32({4})});
  pointwise.candidate = "onednn";
  EXPECT_THROW(cpu().create_kernel(pointwise), UserError);
  EXPECT_TRUE(cpu().candidates(pointwise).empty());
}

}  // namespace
}  // namespace aspen::testing
