#include "aspen/compiler/ir/verifier.h"

#include <array>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), known_(graph.num_values(), nullptr), reads_(graph.num_values(), 0) {}

  void run() {
    for (const auto& task : graph_.tasks) check(task);
    for (const auto& variable : graph_.variables()) check(*variable);
    for (const auto& input : graph_.inputs()) known_[input->id()] = input.get();
    for (const auto& variable : graph_.variables()) known_[variable->value->id()] = variable->value.get();
    for (const auto& op : graph_.ops()) check(*op);
    for (const auto& output : graph_.outputs()) check(output);
    for (const auto& variable : graph_.variables()) check_gradient(*variable);
    check_uses();
  }

 private:
  void check(const GraphTask& task) {
    auto fail = [&](const std::string& problem) { throw InternalError("task \"{}\": {}", task.name, problem); };
    if (task.lane < 0 || task.lane >= static_cast<std::int64_t>(graph_.lanes.size())) {
      fail(fmt::format("there is no lane {}", task.lane));
    }
    std::int64_t device = graph_.lanes[task.lane].device;
    if (device != task.device) fail(fmt::format("is on device {}, its lane on device {}", task.device, device));
    if (task.section == Section::kUpdate) is_after_step_ = true;
    if (task.section == Section::kStep && is_after_step_) fail("a step task comes after an update task");
  }

  static void check(const Variable& variable) {
    if (variable.value->dtype() == DType::kI64) {
      throw InternalError("variable \"{}\" is {}; only inputs are", variable.name, to_string(variable.value->type()));
    }
    if (!variable.sharded || (variable.value->rank() == 1 && variable.numel > 0)) return;
    throw InternalError("variable \"{}\" of type {} and {} elements in all is no shard", variable.name,
                        to_string(variable.value->type()), variable.numel);
  }

  void check(const Op& op) {
    check_task(op);
    for (std::size_t i = 0; i < op.num_inputs(); ++i) {
      const Value* input = op.input(i);
      if (input == nullptr) continue;
      if (known_[input->id()] != input)
        fail(op, fmt::format("input {} (%{}) is not defined before it", i, input->id()));
      const Op* producer = input->producer();
      bool is_here = producer != nullptr ? producer->section == op.section
                                         : input->variable() != nullptr || op.section == Section::kStep;
      if (!is_here) fail(op, fmt::format("input {} comes from another section; only variables carry values across", i));
      if (producer != nullptr && producer->backward && !op.backward) {
        fail(op, fmt::format("is of the forward pass and reads input {} (%{}), a result of the backward pass", i,
                             input->id()));
      }
      ++reads_[input->id()];
    }
    if (op.backward && op.section == Section::kUpdate) fail(op, "is of the backward pass and of the weight update");
    if (op.is_changed()) check_types(op);
    if (op.is("assign")) check_assign(op);
    for (const Graph* body : bodies_of(op)) check_body(op, *body);
    for (std::size_t i = 0; i < op.num_outputs(); ++i) known_[op.output(i)->id()] = op.output(i);
  }

  void check_body(const Op& op, const Graph& body) {
    try {
      verify(body);
    } catch (const Error& e) {
      fail(op, fmt::format("in its graph {}: {}", body.name(), e.what()));
    }
    if (!body.variables().empty()) fail(op, fmt::format("its graph {} has variables", body.name()));
    for (const auto& inner : body.ops()) {
      if (inner->section != Section::kStep) fail(op, fmt::format("its graph {} has ops of the update", body.name()));
    }
  }

  void check_task(const Op& op) {
    if (op.task == -1) return;
    if (op.task < 0 || op.task >= static_cast<std::int64_t>(graph_.tasks.size())) {
      fail(op, fmt::format("there is no task {}", op.task));
    }
    const GraphTask& task = graph_.tasks[op.task];
    if (task.section != op.section) fail(op, fmt::format("task \"{}\" is of another section", task.name));
  }

  void check_types(const Op& op) {
    std::vector<TensorType> types;
    try {
      types = op.def().infer(op.inputs(), op.attrs());
    } catch (const Error& e) {
      fail(op, e.what());
    }
    if (types.size() != op.num_outputs()) {
      fail(op, fmt::format("has {} outputs; its shape rule gives {}", op.num_outputs(), types.size()));
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] == op.output(i)->type()) continue;
      fail(op, fmt::format("output {} is {}; its shape rule gives {}", i, to_string(op.output(i)->type()),
                           to_string(types[i])));
    }
  }

  void check_assign(const Op& op) {
    const Variable* variable = op.input(0)->variable();
    if (variable == nullptr) fail(op, "the first input is not a variable");
    auto& last = assigned_[static_cast<std::size_t>(op.section)];
    if (last.empty()) last.resize(graph_.num_values(), false);
    if (last[op.input(0)->id()])
      fail(op, fmt::format("variable \"{}\" is assigned twice in a section", variable->name));
    last[op.input(0)->id()] = true;
  }

  void check(const Graph::Output& output) {
    const Value* value = output.value;
    if (value->id() >= graph_.num_values() || known_[value->id()] != value) {
      throw InternalError("output \"{}\" of graph {} is not defined in it", output.name, graph_.name());
    }
    if (value->producer() != nullptr && value->producer()->section != Section::kStep) {
      throw InternalError("output \"{}\" is computed by the weight update; outputs leave after each step", output.name);
    }
    if (value->dtype() == DType::kI64) {
      throw InternalError("output \"{}\" is {}; only inputs are", output.name, to_string(value->type()));
    }
    if (!value->is_output()) throw InternalError("output \"{}\" is not counted as a use of its value", output.name);
  }

  void check_gradient(const Variable& variable) {
    const Value* gradient = variable.gradient();
    if (gradient == nullptr) return;
    if (gradient->id() >= graph_.num_values() || known_[gradient->id()] != gradient) {
      throw InternalError("the gradient of variable \"{}\" is not defined in graph {}", variable.name, graph_.name());
    }
    const Variable* sum = graph_.find_variable("Accum___" + variable.name);
    bool is_shard = sum != nullptr && sum->sharded && sum->numel == variable.value->type().numel() &&
                    gradient->shape() == sum->value->shape();
    if ((gradient->shape() != variable.value->shape() && !is_shard) || !is_floating(gradient->dtype())) {
      throw InternalError("the gradient of variable \"{}\" is {}; the variable is {}", variable.name,
                          to_string(gradient->type()), to_string(variable.value->type()));
    }
    if (!gradient->is_gradient()) {
      throw InternalError("the gradient of variable \"{}\" is not counted as a use of its value", variable.name);
    }
  }

  // Every read was counted above; users_ must list as many.
  void check_uses() {
    for (const Value* value : known_) {
      if (value == nullptr || value->users().size() == reads_[value->id()]) continue;
      throw InternalError("value %{} lists {} uses; {} are in the graph", value->id(), value->users().size(),
                          reads_[value->id()]);
    }
  }

  [[noreturn]] void fail(const Op& op, const std::string& problem) {
    throw InternalError("op {}{}: {}", op.name(), op.num_outputs() > 0 ? fmt::format(" (%{})", op.output()->id()) : "",
                        problem);
  }

  const Graph& graph_;
  std::vector<const Value*> known_;  // by id: defined so far
  std::vector<std::size_t> reads_;   // by id
  std::array<std::vector<bool>, 2> assigned_;
  bool is_after_step_ = false;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace aspen
