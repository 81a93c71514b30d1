// Partitioning and transfers on random graphs: whatever the placement, the rules hold and the tasks, run one after the
// other with memory written in place, compute what the graph says.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/compiler/placement/insert_transfers.h"
#include "aspen/compiler/placement/partition.h"
#include "tests/passes/random_graph.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {
namespace {

using Bytes = std::vector<std::byte>;

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

Bytes bytes_of(const HostTensor& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor.data());
  return {data, data + tensor.type().bytes()};
}

// Runs the ops of a section in the order of the list. A graph without tasks is run as its meaning says: variables
// change when the section ends. One with tasks is run as devices would: an assign writes at once, on its own device;
// other devices see it after the next update.
class Machine {
 public:
  explicit Machine(const Graph& graph) : graph_(graph), has_tasks_(!graph.tasks.empty()) {
    for (const GraphTask& task : graph.tasks) devices_.insert(task.device);
    if (!has_tasks_) devices_.insert(0);
    for (const auto& variable : graph.variables()) {
      const TensorType& type = variable->value->type();
      HostTensor initial(type, std::vector<double>(type.numel(), variable->initial));
      for (std::int64_t device : devices_) memory_[{variable.get(), device}] = bytes_of(initial);
    }
  }

  // Returns the outputs of the step, if it is one.
  std::vector<Bytes> run(Section section, const Bytes& x) {
    std::map<const Value*, Bytes> values{{graph_.inputs()[0].get(), x}};
    std::vector<std::pair<const Op*, Bytes>> written;
    for (const auto& op : graph_.ops()) {
      if (op->section != section) continue;
      std::vector<const Bytes*> inputs;
      for (const Value* input : op->inputs()) inputs.push_back(&read(input, device_of(*op), values));
      if (op->is("assign")) {
        written.emplace_back(op.get(), *inputs[1]);
        if (has_tasks_) memory_[{op->input(0)->variable(), device_of(*op)}] = written.back().second;
      } else if (op->def().is_alias()) {
        values[op->output()] = Bytes(*inputs[0]);
      } else {
        auto results = evaluate(*op, inputs, backend());
        for (std::size_t i = 0; i < results.size(); ++i) values[op->output(i)] = std::move(results[i]);
      }
    }
    std::vector<Bytes> outputs;
    if (section == Section::kStep) {
      for (const auto& output : graph_.outputs()) outputs.push_back(values.at(output.value));
    }
    for (const auto& [op, bytes] : written) {
      home_[op->input(0)->variable()] = device_of(*op);
      if (has_tasks_ && section == Section::kStep) continue;
      for (std::int64_t device : devices_) memory_[{op->input(0)->variable(), device}] = bytes;
    }
    return outputs;
  }

  const Bytes& variable(const std::string& name) {
    const Variable* variable = graph_.find_variable(name);
    auto home = home_.find(variable);
    return memory_.at({variable, home == home_.end() ? *devices_.begin() : home->second});
  }

 private:
  std::int64_t device_of(const Op& op) const { return has_tasks_ ? graph_.tasks[op.task].device : 0; }

  const Bytes& read(const Value* value, std::int64_t device, const std::map<const Value*, Bytes>& values) const {
    return value->variable() != nullptr ? memory_.at({value->variable(), device}) : values.at(value);
  }

  const Graph& graph_;
  bool has_tasks_;
  std::set<std::int64_t> devices_;
  std::map<std::pair<const Variable*, std::int64_t>, Bytes> memory_;
  std::map<const Variable*, std::int64_t> home_;
};

void run_placement(Graph& graph, const CompileOptions& options) {
  std::vector<Pass> passes;
  for (const char* name : {"place_variables", "partition", "insert_transfers", "schedule"}) {
    passes.push_back(find_pass(name));
  }
  run_passes(graph, passes, {.options = options, .backend = &backend()});
}

class RandomPlacement : public ::testing::TestWithParam<int> {};

TEST_P(RandomPlacement, ComputesWhatTheGraphSays) {
  for (int i = 0; i < 40; ++i) {
    std::uint64_t seed = 1000 * GetParam() + i;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    auto expected = random_graph(seed), graph = random_graph(seed);
    ASSERT_NO_THROW(run_placement(*graph, random_options(seed))) << to_text(*expected);
    ASSERT_EQ(kPartitioned.violation(*graph), "");
    ASSERT_EQ(kTransfersComplete.violation(*graph), "");
    ASSERT_EQ(to_text(*parse_graph(to_text(*graph))), to_text(*graph));

    Machine meant(*expected), machine(*graph);
    for (std::uint64_t round = 0; round < 6; ++round) {
      Bytes x = bytes_of(random_tensor(expected->inputs()[0]->type(), {}, round));
      ASSERT_EQ(machine.run(Section::kStep, x), meant.run(Section::kStep, x)) << to_text(*graph);
      if (round % 2 == 0) continue;
      machine.run(Section::kUpdate, x);
      meant.run(Section::kUpdate, x);
      for (const auto& variable : expected->variables()) {
        ASSERT_EQ(machine.variable(variable->name), meant.variable(variable->name)) << variable->name << "\n"
                                                                                    << to_text(*graph);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlacement, ::testing::Range(0, 10));

}  // namespace
}  // namespace aspen::testing
