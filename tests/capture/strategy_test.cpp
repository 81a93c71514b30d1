// Strategies of the public C++ API: the place of every block, the text form, and phases that train like one device.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/torch.h>

#include <optional>

#include "error_of.h"

namespace {

using poptorch::AutoStage;
using poptorch::ExecutionStrategy;
using poptorch::Liveness;
using poptorch::Options;
using poptorch::ParallelPhasedExecution;
using poptorch::Phase;
using poptorch::PipelinedExecution;
using poptorch::SerialPhasedExecution;
using poptorch::ShardedExecution;
using poptorch::Stage;
using Tensors = std::vector<torch::Tensor>;
using Ipu = std::optional<std::int64_t>;

using poptorch::tests::error_of;

// (stage, phase, IPU) of the blocks a, b and c, as text.
std::string places(ExecutionStrategy strategy, const std::vector<Ipu>& ipus = {{}, {}, {}}) {
  std::string text;
  for (std::size_t i = 0; i < ipus.size(); ++i) {
    const auto [stage, phase, ipu] = strategy.place(std::string(1, static_cast<char>('a' + i)), ipus[i]);
    text += "(" + std::to_string(stage) + " " + std::to_string(phase) + " " + std::to_string(ipu) + ")";
  }
  return text;
}

// What the Python tests expect of the same strategies (tests/python/test_annotations.py).
TEST(Strategy, PlacesBlocksOfStages) {
  EXPECT_EQ(places(PipelinedExecution(), {0, 1, 2}), "(0 0 0)(1 0 1)(2 0 2)");
  EXPECT_EQ(places(ShardedExecution(), {2, 0, 1}), "(2 0 2)(0 0 0)(1 0 1)");
  EXPECT_EQ(places(PipelinedExecution(AutoStage::AutoIncrement)), "(1 0 1)(2 0 2)(3 0 3)");
  EXPECT_EQ(places(PipelinedExecution(AutoStage::AutoIncrement), {0, 1, 0}), "(1 0 0)(2 0 1)(3 0 0)");
  EXPECT_EQ(places(PipelinedExecution({"a", "b", "c"})), "(0 0 0)(1 0 1)(2 0 2)");
  EXPECT_EQ(places(PipelinedExecution({"a", "b", "c"}), {5, {}, 4}), "(0 0 5)(1 0 1)(2 0 4)");
  EXPECT_EQ(places(PipelinedExecution({Stage{"a", "b"}, "c"})), "(0 0 0)(0 0 0)(1 0 1)");
  EXPECT_EQ(places(ShardedExecution({Stage{"a", "c"}.ipu(1), Stage("b").ipu(0)}), {7, 7, 7}), "(0 0 1)(1 0 0)(0 0 1)");
}

TEST(Strategy, PlacesBlocksOfPhases) {
  EXPECT_EQ(places(SerialPhasedExecution({"a", Phase{Stage("b"), Stage("c")}})), "(0 0 0)(0 1 0)(1 1 1)");
  EXPECT_EQ(places(SerialPhasedExecution({"a", Phase{"b", "c"}})), "(0 0 0)(0 1 0)(0 1 0)");
  ParallelPhasedExecution parallel({"a", Stage("b"), "c"});
  parallel.phase(1).ipus({1});
  parallel.phase(2).stage(0).ipu(2);
  EXPECT_EQ(places(parallel), "(0 0 0)(0 1 1)(0 2 2)");
}

TEST(Strategy, RemembersWhatAutoIncrementFoundUntilItForgets) {
  PipelinedExecution counted(AutoStage::AutoIncrement);
  for (const auto& [block, stage] : {std::pair("x", 1), {"y", 2}, {"x", 1}}) {
    EXPECT_EQ(counted.place(block, {}).stage, stage);
  }
  counted.forget();
  EXPECT_EQ(counted.place("y", {}).stage, 1);
}

TEST(Strategy, CopiesAreIndependent) {
  SerialPhasedExecution first({"a", "b"});
  SerialPhasedExecution second = first;
  second.phase(1).ipus({3});
  second.useSeparateBackwardPhase().setTensorsLiveness(Liveness::OffChipAfterFwd);
  EXPECT_EQ(first.toString(),
            "SerialPhasedExecution(Phase(Stage(\"a\")), Phase(Stage(\"b\")), separate_backward_phase=false, "
            "liveness=AlwaysLive)");
  EXPECT_EQ(second.toString(),
            "SerialPhasedExecution(Phase(Stage(\"a\")), Phase(Stage(\"b\").ipu(3)), separate_backward_phase=true, "
            "liveness=OffChipAfterFwd)");
}

TEST(Strategy, HasATextForm) {
  EXPECT_EQ(PipelinedExecution().toString(), "PipelinedExecution(AutoStage::SameAsIpu)");
  EXPECT_EQ(ShardedExecution({"a", Stage{"b", "c"}.ipu(2)}).toString(),
            "ShardedExecution(Stage(\"a\"), Stage(\"b\", \"c\").ipu(2))");
  EXPECT_EQ(ParallelPhasedExecution({"a"}).sendTensorsOffChipAfterFwd().toString(),
            "ParallelPhasedExecution(Phase(Stage(\"a\")), separate_backward_phase=false, off_chip_after_fwd=true)");
}

TEST(Strategy, NamesMistakes) {
  using poptorch::ArgumentError;
  const auto mistake = [](const std::function<void()>& action) { return error_of<ArgumentError>(action); };
  EXPECT_EQ(mistake([] { PipelinedExecution().place("a", {}); }),
            "Block \"a\" has no ipu_id, which AutoStage::SameAsIpu needs to find its stage. Give it an ipu_id, use "
            "AutoStage::AutoIncrement, or list the stages in the strategy.");
  EXPECT_EQ(mistake([] { PipelinedExecution({"a"}).place("b", {}); }),
            "Block \"b\" is not in any stage of PipelinedExecution; its stages have the blocks [\"a\"]. Add the block "
            "to a stage.");
  EXPECT_EQ(mistake([] {
              PipelinedExecution({"a", Stage{"b", "a"}});
            }),
            "Block \"a\" is in two stages; a block belongs to one stage");
  EXPECT_EQ(mistake([] {
              SerialPhasedExecution({"a", "b"}).stage("z");
            }),
            "Unknown block \"z\"; known: [\"a\", \"b\"]");
  EXPECT_EQ(mistake([] { SerialPhasedExecution(std::vector<Phase>()); }),
            "SerialPhasedExecution needs its phases: there is no automatic mode");
  EXPECT_EQ(mistake([] { Phase("a").ipus({0, 1}); }), "Phase has 1 stages, but 2 IPUs were given");
  EXPECT_EQ(mistake([] { SerialPhasedExecution({"a"}).phase(1); }), "The strategy has no phase 1; it has 1");
  EXPECT_EQ(error_of([] {
              ParallelPhasedExecution({"a", "b"}).place("b", {});
            }),
            "[ParallelPhasedExecution] block \"b\" of phase 1 is on IPU 0; even phases run on even IPUs and odd phases "
            "on odd ones. Choose them with strategy.phase(1).ipus(...).");
  EXPECT_EQ(error_of([] { ShardedExecution().place("a", -1); }),
            "[Block] block \"a\" is on IPU -1; ids are whole numbers from 0.");
  EXPECT_EQ(error_of([] { Stage("a").ipu(-1); }), "[Stage] -1 is no IPU; ids begin at 0.");
}

// -- training ---------------------------------------------------------------------------------------------------------

// Three layers in the blocks a, b and c.
struct ThreeImpl : torch::nn::Module {
  ThreeImpl() {
    torch::manual_seed(7);
    for (const char* name : {"a", "b", "c"}) layers.push_back(register_module(name, torch::nn::Linear(6, 6)));
  }
  torch::Tensor forward(torch::Tensor x, torch::Tensor target) {
    const char* names[] = {"a", "b", "c"};
    for (std::size_t i = 0; i < 2; ++i) {
      const poptorch::Block block(names[i]);
      x = torch::tanh(layers[i](x));
    }
    const poptorch::Block block(names[2]);
    return torch::mse_loss(layers[2](x), target);
  }
  std::vector<torch::nn::Linear> layers;
};

// The weights after three calls.
Tensors learnt(const ExecutionStrategy& strategy) {
  auto net = std::make_shared<ThreeImpl>();
  torch::manual_seed(3);
  const auto x = torch::randn({2 * 3 * 2, 6}), target = torch::randn({2 * 3 * 2, 6});
  Options options;
  options.deviceIterations(2).setExecutionStrategy(strategy).Training.gradientAccumulation(3);
  auto model = poptorch::trainingModel(net, options, poptorch::optim::AdamW(net->parameters()));
  for (int call = 0; call < 3; ++call) model(x, target);
  model.copyWeightsToHost();
  Tensors weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

TEST(Strategy, PhasesLearnWhatOneDeviceLearns) {
  const Tensors one = learnt(ShardedExecution({Stage{"a", "b", "c"}}));
  std::vector<std::shared_ptr<ExecutionStrategy>> strategies;
  for (const Liveness liveness : {Liveness::AlwaysLive, Liveness::OffChipAfterFwd, Liveness::OffChipAfterFwdNoOverlap,
                                  Liveness::OffChipAfterEachPhase}) {
    SerialPhasedExecution serial({"a", "b", "c"});
    serial.setTensorsLiveness(liveness).useSeparateBackwardPhase(liveness == Liveness::OffChipAfterEachPhase);
    strategies.push_back(std::make_shared<ExecutionStrategy>(serial));
  }
  for (const bool off_chip : {false, true}) {
    ParallelPhasedExecution parallel({"a", "b", "c"});
    parallel.phase(1).ipus({1});
    parallel.sendTensorsOffChipAfterFwd(off_chip);
    strategies.push_back(std::make_shared<ExecutionStrategy>(parallel));
  }
  // Against the order of the stages, which take turns.
  const Phase against{Stage("c").ipu(0), Stage("b").ipu(1), Stage("a").ipu(0)};
  strategies.push_back(std::make_shared<ExecutionStrategy>(SerialPhasedExecution({against})));
  for (const auto& strategy : strategies) {
    const Tensors weights = learnt(*strategy);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(torch::equal(one[i], weights[i])) << strategy->toString() << " parameter " << i;
    }
  }
  EXPECT_FALSE(torch::equal(one[0], std::make_shared<ThreeImpl>()->parameters()[0]));  // it has learnt something
}

}  // namespace
