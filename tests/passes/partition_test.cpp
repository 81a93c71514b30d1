// Partitioning and transfers under random placements: the rules hold, and the tasks, run one after the other with
// memory written in place, compute what the graph says, bit by bit.
#include <gtest/gtest.h>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/compiler/placement/insert_transfers.h"
#include "aspen/compiler/placement/partition.h"
#include "tests/passes/machine.h"
#include "tests/passes/random_graph.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {
namespace {

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

Bytes random_bytes(const TensorType& type, std::uint64_t seed) {
  HostTensor tensor = random_tensor(type, {.int_high = 3}, seed);
  const auto* data = static_cast<const std::byte*>(tensor.data());
  return {data, data + type.bytes()};
}

std::vector<Bytes> random_inputs(const Graph& graph, std::uint64_t seed) {
  std::vector<Bytes> result;
  for (const auto& input : graph.inputs()) result.push_back(random_bytes(input->type(), seed));
  return result;
}

// Two updates of `accumulation` micro-batches each; afterwards every variable of `expected` is in `graph` as well.
void expect_same_training(const Graph& expected, const Graph& graph, std::int64_t accumulation) {
  Machine meant(expected), machine(graph);
  for (const auto& variable : expected.variables()) {
    if (variable->kind != VariableKind::kParameter && variable->kind != VariableKind::kSetting) continue;
    Bytes bytes = random_bytes(variable->value->type(), 7);
    meant.set(variable->name, bytes);
    machine.set(variable->name, bytes);
  }
  for (std::int64_t round = 1; round <= 2 * accumulation; ++round) {
    std::vector<Bytes> inputs = random_inputs(graph, round);
    ASSERT_EQ(machine.run(Section::kStep, inputs), meant.run(Section::kStep, inputs)) << to_text(graph);
    if (round % accumulation != 0) continue;
    machine.run(Section::kUpdate, {});
    meant.run(Section::kUpdate, {});
    for (const auto& variable : expected.variables()) {
      ASSERT_EQ(machine.variable(variable->name), meant.variable(variable->name)) << variable->name << "\n"
                                                                                  << to_text(graph);
    }
  }
}

class RandomPlacement : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kSeeds = 40;  // per parameter, to run side by side
};

TEST_P(RandomPlacement, ComputesWhatTheGraphSays) {
  std::vector<Pass> passes;
  for (const char* name : {"place_variables", "partition", "insert_transfers", "schedule"}) {
    passes.push_back(find_pass(name));
  }
  for (int seed = GetParam() * kSeeds; seed < (GetParam() + 1) * kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    auto expected = random_graph(seed), graph = random_graph(seed);
    CompileOptions options = random_options(seed);
    ASSERT_NO_THROW(run_passes(*graph, passes, {.options = options})) << to_text(*expected);
    ASSERT_EQ(kPartitioned.violation(*graph), "");
    ASSERT_EQ(kTransfersComplete.violation(*graph), "");
    ASSERT_EQ(to_text(*parse_graph(to_text(*graph))), to_text(*graph));
    ASSERT_NO_FATAL_FAILURE(expect_same_training(*expected, *graph, 2));
  }
}

// The whole training pipeline: autodiff, optimiser, recomputation, transfers.
TEST_P(RandomPlacement, TrainsAsOneDeviceDoes) {
  for (int seed = GetParam() * kSeeds / 8; seed < (GetParam() + 1) * kSeeds / 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    auto expected = random_model(seed, false), graph = random_model(seed, true);
    CompileOptions options = random_options(seed);
    set_random_optimizer(seed, *graph, options);
    CompileOptions plain{.training = true, .gradient_accumulation = options.gradient_accumulation};
    plain.optimizer = options.optimizer;
    run_passes(*expected, training_pipeline(), {.options = plain, .backend = &backend()});
    ASSERT_NO_THROW(run_passes(*graph, training_pipeline(), {.options = options, .backend = &backend()}))
        << to_text(*random_model(seed, true));
    ASSERT_NO_FATAL_FAILURE(expect_same_training(*expected, *graph, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlacement, ::testing::Range(0, 10));

}  // namespace
}  // namespace aspen::testing
