// Which of several close kernels a request gets: by rule, by the table, or by time.
#include "aspen/compiler/choose_kernels.h"

#include <cstdlib>
#include <thread>

#include "aspen/backends/api/callable_kernel.h"
#include "harness.h"

namespace aspen::testing {
namespace {

// Three candidates for any op: two that are close, of which that by rule takes longer, and one that is not.
class PairBackend final : public Backend {
 public:
  std::string name() const override { return "pair"; }
  std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const override {
    if (request.candidate == "declines") throw UserError("not today");
    const auto pause = std::chrono::microseconds(request.candidate == "fast" ? 100 : 3000);
    return make_kernel([this, pause, request](const KernelArgs&) {
      asked.push_back(request.outputs[0].shape[0]);
      std::this_thread::sleep_for(pause);
    });
  }
  std::vector<CandidateOpinion> candidates(const KernelRequest& request) const override {
    if (request.op != "neg") return {};
    return {
        {"declines", Fit::kClose, ""}, {"poor", Fit::kPoor, ""}, {"fast", Fit::kClose, ""}, {"rule", Fit::kBest, ""}};
  }
  mutable std::vector<std::int64_t> asked;  // sizes of what was run
};

class Table final : public ChoiceTable {
 public:
  Choices known() override { return choices; }
  void extend(const Decide& decide) override {
    ++num_extended;
    last = decide(choices, can_keep);
    for (const Choices& more : {last.timed, last.by_rule}) {
      for (const auto& [request, candidate] : more) choices[request] = candidate;
    }
  }
  Choices choices;
  Decided last;
  bool can_keep = true;
  int num_extended = 0;
};

KernelRequest negation(std::int64_t size, const char* op = "neg") {
  TensorType type{DType::kF32, {size}};
  return {.op = op, .attrs = {}, .inputs = {{.type = type}}, .outputs = {type}};
}

class ChooseKernels : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("ASPEN_TUNING_SECONDS"); }
  void choose(std::vector<KernelRequest>& requests) {
    std::vector<KernelWish> wishes;
    for (KernelRequest& request : requests) {
      wishes.push_back({&request, static_cast<double>(request.outputs[0].numel())});
    }
    choose_kernels(wishes, backend, table);
  }
  PairBackend backend;
  Table table;
};

TEST_F(ChooseKernels, TakesTheFastestAndKeepsIt) {
  std::vector<KernelRequest> requests{negation(8), negation(16), negation(8), negation(8, "exp")};
  choose(requests);
  EXPECT_EQ(requests[0].candidate, "fast");
  EXPECT_EQ(requests[1].candidate, "fast");
  EXPECT_EQ(requests[2].candidate, "fast");
  EXPECT_EQ(requests[3].candidate, "") << "there is no choice";
  EXPECT_EQ(table.last.timed.size(), 2u);
  EXPECT_TRUE(table.last.by_rule.empty());
}

TEST_F(ChooseKernels, WhatIsKnownIsNotTimedAgain) {
  table.choices[to_string(negation(8))] = "rule";
  std::vector<KernelRequest> requests{negation(8)};
  choose(requests);
  EXPECT_EQ(requests[0].candidate, "rule");
  EXPECT_EQ(table.num_extended, 0);
  EXPECT_TRUE(backend.asked.empty());
}

TEST_F(ChooseKernels, AnAnswerThatIsNoCandidateIsReplaced) {
  table.choices[to_string(negation(8))] = "somebody else's";
  std::vector<KernelRequest> requests{negation(8)};
  choose(requests);
  EXPECT_EQ(requests[0].candidate, "fast");
}

TEST_F(ChooseKernels, NothingIsTimedThatCannotBeKept) {
  table.can_keep = false;
  std::vector<KernelRequest> requests{negation(8)};
  choose(requests);
  EXPECT_EQ(requests[0].candidate, "");
  EXPECT_TRUE(backend.asked.empty());
  table.can_keep = true;
  choose(requests);
  EXPECT_EQ(requests[0].candidate, "") << "this process has used the other one";
}

TEST_F(ChooseKernels, NoSecondsAreNoTrials) {
  setenv("ASPEN_TUNING_SECONDS", "0", 1);
  table.choices[to_string(negation(16))] = "fast";
  std::vector<KernelRequest> requests{negation(8), negation(16)};
  choose(requests);
  EXPECT_EQ(requests[0].candidate, "");
  EXPECT_EQ(requests[1].candidate, "fast");
  EXPECT_TRUE(backend.asked.empty());
  EXPECT_TRUE(table.last.timed.empty());
}

TEST_F(ChooseKernels, TheMostExpensiveComeFirstAsLongAsTimeLasts) {
  setenv("ASPEN_TUNING_SECONDS", "0.02", 1);
  std::vector<KernelRequest> requests;
  for (std::int64_t size = 1; size <= 100; ++size) requests.push_back(negation(size));
  choose(requests);
  EXPECT_EQ(backend.asked.at(0), 100);
  EXPECT_GT(table.last.by_rule.size(), 50u);
  EXPECT_EQ(table.last.by_rule.size() + table.last.timed.size(), 100u);
  EXPECT_TRUE(table.last.by_rule.contains(to_string(negation(1))));
  for (const KernelRequest& request : requests) {
    EXPECT_EQ(request.candidate, table.last.timed.contains(to_string(request)) ? "fast" : "");
  }
}

TEST_F(ChooseKernels, RefusesATimeThatIsNone) {
  std::vector<KernelRequest> requests{negation(8)};
  for (const char* text : {"soon", "-1", "1s", "nan"}) {
    setenv("ASPEN_TUNING_SECONDS", text, 1);
    EXPECT_THROW(choose(requests), UserError) << text;
  }
}

TEST_F(ChooseKernels, WithoutATableRulesDecide) {
  constexpr const char* kText = R"(graph @main(%x: f32[8]) {
    %0: f32[8] = neg(%x)
    return y: %0
  })";
  auto graph = parse_graph(kText);
  auto program = compile(*graph, {}, backend);
  EXPECT_EQ(program->step[0].instructions[0].request.candidate, "");
  EXPECT_TRUE(backend.asked.empty());

  CompileOptions options;
  auto shared = std::make_shared<Table>();
  options.choices = shared;
  graph = parse_graph(kText);
  program = compile(*graph, options, backend);
  EXPECT_EQ(program->step[0].instructions[0].request.candidate, "fast");
}

}  // namespace
}  // namespace aspen::testing
