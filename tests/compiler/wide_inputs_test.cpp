// Integers of 64 bits that the program reads where the host has them: the same results as those of 32 bits, and errors
// wherever one is read first.
#include "aspen/base/error.h"
#include "harness.h"

namespace aspen::testing {
namespace {

// Read by both devices, in the backward pass of the first as well; %t is returned as it is.
std::string two_devices(const std::string& mark) {
  return fmt::format(
      "graph @main(%ids: i32[4]{0}, %t: i32[4]{0}) {{\n"
      "  variable %w: f32[5, 3] parameter trainable\n"
      "  %0: f32[4, 3] = take(%w, %ids) {{axis=0}}\n"
      "  %1: i32[4] = add(%ids, %t)\n"
      "  %2: f32[4, 3] = log_softmax(%0) {{axis=1}} device 1 stage 1\n"
      "  %3: f32[], %4: f32[] = nll(%2, %t, _) device 1 stage 1\n"
      "  %5: f32[] = loss(%3) device 1 stage 1\n"
      "  %6: i32[4] = add(%1, %ids) device 1 stage 1\n"
      "  return loss: %5, sum: %1, more: %6, t: %t\n"
      "}}\n",
      mark);
}

struct Case {
  CompileOptions options;
  std::int64_t batches() const {
    return kIterations * options.gradient_accumulation * static_cast<std::int64_t>(options.replicas);
  }
  static constexpr std::int64_t kIterations = 2;
};

std::vector<Case> all_cases() {
  CompileOptions alone{.device_iterations = Case::kIterations, .min_group_elements = 1};
  CompileOptions training = alone;
  training.training = true;
  training.gradient_accumulation = 3;
  training.optimizer = {.kind = "sgd", .groups = {{.parameters = {"w"}}}};
  CompileOptions replicated = training, sharded = training;
  replicated.replicas = 2;
  sharded.execution = Execution::kSharded;
  return {{alone}, {training}, {replicated}, {sharded}};
}

template <class T>
std::vector<T> integers(std::int64_t count, std::int64_t below) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<T>(i * 7 % below));
  return result;
}

// Outputs and, at the end, the weights: of every type the bytes.
template <class T>
std::vector<std::vector<std::int32_t>> run(const std::string& mark, const Case& c, const std::vector<T>& ids,
                                           const std::vector<T>& t) {
  Session session(two_devices(mark), c.options);
  EXPECT_EQ(session.program().inputs[0].type.dtype, dtype_of<T>());
  std::vector<float> w(15);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 4) - 1.5f;
  session.set("w", w);
  if (c.options.training) {
    std::vector<float> settings(kNumSettings, 0.0f);
    settings[kLearningRate] = 0.1f;
    settings[kLossScaling] = 1;
    session.set("settings___0", settings);
  }
  RunRequest request{.device_iterations = Case::kIterations, .gradient_accumulation = c.options.gradient_accumulation};
  request.inputs = {ids.data(), t.data()};
  std::vector<std::vector<std::int32_t>> results;
  for (const auto& output : session.program().outputs) {
    EXPECT_EQ(size_of(output.type.dtype), sizeof(std::int32_t));
    results.emplace_back(output.type.numel() * c.batches(), -77);
  }
  for (auto& result : results) request.outputs.push_back({.data = result.data()});
  session.executor().run(request);
  results.push_back(session.get<std::int32_t>("w"));
  return results;
}

TEST(WideInputs, GiveWhatNarrowOnesGive) {
  for (const Case& c : all_cases()) {
    const std::int64_t count = 4 * c.batches();
    const auto expected = run("", c, integers<std::int32_t>(count, 5), integers<std::int32_t>(count, 3));
    for (const char* mark : {" wide", " overlapped wide"}) {
      EXPECT_EQ(run(mark, c, integers<std::int64_t>(count, 5), integers<std::int64_t>(count, 3)), expected) << mark;
    }
  }
}

TEST(WideInputs, ThatDoNotFitAreErrorsWithTheNumber) {
  for (const Case& c : all_cases()) {
    for (const char* mark : {" wide", " overlapped wide"}) {
      auto ids = integers<std::int64_t>(4 * c.batches(), 5);
      ids.back() = -(std::int64_t{1} << 35);
      try {
        run(mark, c, ids, integers<std::int64_t>(4 * c.batches(), 3));
        ADD_FAILURE() << "no error";
      } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find("[types] input \"ids\" holds -34359738368 among its integers"),
                  std::string::npos)
            << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace aspen::testing
