#include "tests/passes/machine.h"

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/op_def.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {
namespace {

const Backend& backend() {
  static const auto reference = make_reference_backend();
  return *reference;
}

}  // namespace

Machine::Machine(const Graph& graph) : graph_(graph), has_tasks_(!graph.tasks.empty()) {
  for (const GraphTask& task : graph.tasks) devices_.insert(task.device);
  if (!has_tasks_) devices_.insert(0);
  for (const auto& variable : graph.variables()) {
    const TensorType& type = variable->value->type();
    HostTensor initial(type, std::vector<double>(type.numel(), variable->initial));
    const auto* data = static_cast<const std::byte*>(initial.data());
    set(variable->name, {data, data + type.bytes()});
  }
}

std::vector<Bytes> Machine::run(Section section, const std::vector<Bytes>& inputs) {
  std::map<const Value*, Bytes> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph_.inputs()[i].get()] = inputs[i];
  std::vector<std::pair<const Op*, Bytes>> written;
  for (const auto& op : graph_.ops()) {
    if (op->section != section) continue;
    if (!op->is("assign")) {
      run(*op, values);
      continue;
    }
    written.emplace_back(op.get(), *read(op->input(1), device_of(*op), values));
    const Variable* variable = op->input(0)->variable();
    if (has_tasks_) memory_[{variable, memory_of(*variable, device_of(*op))}] = written.back().second;
  }
  std::vector<Bytes> outputs;
  if (section == Section::kStep) {
    for (const auto& output : graph_.outputs()) outputs.push_back(values.at(output.value));
  }
  for (const auto& [op, bytes] : written) {
    home_[op->input(0)->variable()] = device_of(*op);
    if (!has_tasks_ || section == Section::kUpdate) set(op->input(0)->variable()->name, bytes);
  }
  return outputs;
}

void Machine::run(const Op& op, std::map<const Value*, Bytes>& values) const {
  std::vector<const Bytes*> inputs;
  for (const Value* input : op.inputs()) inputs.push_back(read(input, device_of(op), values));
  if (op.def().is_alias()) {
    values[op.output()] = Bytes(*inputs[0]);
    return;
  }
  auto results = evaluate(op, inputs, backend());
  for (std::size_t i = 0; i < results.size(); ++i) values[op.output(i)] = std::move(results[i]);
}

const Bytes& Machine::variable(const std::string& name) const {
  const Variable* variable = graph_.find_variable(name);
  auto home = home_.find(variable);
  return memory_.at({variable, memory_of(*variable, home == home_.end() ? *devices_.begin() : home->second)});
}

void Machine::set(const std::string& name, const Bytes& bytes) {
  const Variable* variable = graph_.find_variable(name);
  for (std::int64_t device : devices_) memory_[{variable, memory_of(*variable, device)}] = bytes;
}

std::int64_t Machine::memory_of(const Variable& variable, std::int64_t device) {
  constexpr std::int64_t kHost = -1;
  return variable.off_device ? kHost : device;
}

std::int64_t Machine::device_of(const Op& op) const { return has_tasks_ ? graph_.tasks[op.task].device : 0; }

const Bytes* Machine::read(const Value* value, std::int64_t device, const std::map<const Value*, Bytes>& values) const {
  if (value == nullptr) return nullptr;
  const Variable* variable = value->variable();
  return variable == nullptr ? &values.at(value) : &memory_.at({variable, memory_of(*variable, device)});
}

}  // namespace aspen::testing
