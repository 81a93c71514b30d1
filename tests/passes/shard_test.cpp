// Sharded optimiser state: replicas that each update their own part of a parameter and then fetch the others' parts do
// to the bit what one update of the whole does.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/base/replica_grouping.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/passes/insert_optimizer.h"
#include "aspen/compiler/passes/run_on_text.h"
#include "tests/support/interpret.h"
#include "train.h"

namespace aspen::testing {
namespace {

constexpr std::int64_t kNumel = 11;  // no multiple of the number of replicas
constexpr std::size_t kReplicas = 4;

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

using Variables = std::map<std::string, HostTensor>;

// The update of one parameter from a gradient that the test hands over in a variable.
class Update {
 public:
  Update(const std::string& optimizer, bool is_sharded)
      : graph_(
            parse_graph("graph @main() {\n  variable %w: f32[11] parameter trainable\n  variable %g: f32[11] buffer\n"
                        "  %0: f32[11] = neg(%g) update\n  gradient %w: %0\n  return\n}\n")) {
    std::string sharding = is_sharded ? " sharded=optimizer_state min_shard_elements=2" : "";
    CompileOptions options = parse_compile_options("replicas=4 optimizer=" + optimizer + sharding);
    insert_optimizer(*graph_, {.options = options});
  }

  const Graph& graph() const { return *graph_; }

  Variables initial() const {
    Variables result;
    for (const auto& variable : graph_->variables()) {
      HostTensor& tensor = result.emplace(variable->name, variable->value->type()).first->second;
      for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, variable->initial);
    }
    result.at("w") = random_tensor(result.at("w").type(), {}, 1);
    result.at("settings___0") = random_tensor(result.at("settings___0").type(), {.low = 0.1, .high = 0.3}, 2);
    return result;
  }

  Variables run(const Variables& before, std::uint64_t replica) const {
    Tensors known;
    for (const auto& variable : graph_->variables()) known.emplace(variable->value.get(), before.at(variable->name));
    Variables result = before;
    StepContext step{.replica = replica, .num_replicas = kReplicas};
    for (auto& [name, tensor] : Interpreter(*graph_, backend())(known, step).variables) result[name] = tensor;
    return result;
  }

 private:
  std::unique_ptr<Graph> graph_;
};

// What the executor does with a gathered variable after the update.
void gather(std::vector<Variables>& replicas, const std::string& name) {
  for (std::size_t from = 0; from < replicas.size(); ++from) {
    auto [first, last] = shard_of(kNumel, from, replicas.size());
    for (auto& replica : replicas) {
      for (std::int64_t i = first; i < last; ++i) replica.at(name).set(i, replicas[from].at(name).at(i));
    }
  }
}

class ShardedState : public ::testing::TestWithParam<const char*> {};

TEST_P(ShardedState, GivesTheBitsOfTheWhole) {
  Update whole(GetParam(), false), sharded(GetParam(), true);
  Variables expected = whole.initial();
  std::vector<Variables> replicas(kReplicas, sharded.initial());
  for (std::uint64_t step = 0; step < 3; ++step) {
    HostTensor gradient = random_tensor({DType::kF32, {kNumel}}, {}, 10 + step);
    expected.at("g") = gradient;
    expected = whole.run(expected, 0);
    for (std::size_t r = 0; r < kReplicas; ++r) {
      replicas[r].at("g") = gradient;
      replicas[r] = sharded.run(replicas[r], r);
    }
    EXPECT_FALSE(replicas[0].at("w") == expected.at("w"));  // each has written its own part only
    gather(replicas, "w");
    for (const auto& replica : replicas) EXPECT_TRUE(replica.at("w") == expected.at("w"));
  }
  for (const auto& variable : sharded.graph().variables()) {
    if (!variable->sharded) continue;
    for (std::size_t r = 0; r < kReplicas; ++r) {
      auto [first, last] = shard_of(kNumel, r, kReplicas);
      for (std::int64_t i = first; i < last; ++i) {
        EXPECT_EQ(replicas[r].at(variable->name).at(i - first), expected.at(variable->name).at(i)) << variable->name;
      }
    }
  }
}

TEST_P(ShardedState, TakesAQuarterOfTheMemory) {
  Update sharded(GetParam(), true);
  std::size_t num_states = 0;
  for (const auto& variable : sharded.graph().variables()) {
    if (!variable->name.starts_with("Accl")) continue;
    ++num_states;
    EXPECT_TRUE(variable->sharded);
    EXPECT_EQ(variable->numel, kNumel);
    EXPECT_EQ(variable->value->shape(), (Shape{3}));
  }
  EXPECT_GT(num_states, 0u);
  EXPECT_TRUE(sharded.graph().find_variable("w")->gathered);
}

TEST(ShardedReplicas, TrainToTheBitsOfWholeOnes) {
  for (const char* kind : {"adam", "rmsprop", "lamb"}) {
    for (const char* replicas : {" replicas=2", " replicas=3 gradient_accumulation=2"}) {
      std::string text = std::string("optimizer=") + kind + replicas;
      // Of the two parameters only the larger is cut.
      EXPECT_EQ(train(text + " sharded=optimizer_state min_shard_elements=16"), train(text)) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ShardedState,
                         ::testing::Values("sgd group=w momentum", "sgd group=w momentum nesterov", "adam group=w",
                                           "adamw group=w", "rmsprop group=w centered momentum",
                                           "rmsprop group=w tf_variant"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == ' ' || c == '='; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace aspen::testing
