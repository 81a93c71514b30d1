#include "tests/conformance/cases.h"

#include <algorithm>

namespace aspen::testing {
namespace {

// FNV-1a: equal on every machine, unlike std::hash.
std::uint64_t hash(const std::string& text) {
  std::uint64_t result = 14695981039346656037u;
  for (unsigned char c : text) result = (result ^ c) * 1099511628211u;
  return result;
}

}  // namespace

std::string Case::name() const {
  return fmt::format("{}_{}{}", op->name(), index, without_optional ? "_required_only" : "");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const OpDef* op : op_registry().all()) {
    const auto& ports = op->input_ports();
    bool has_optional = std::any_of(ports.begin(), ports.end(), [](const Port& port) { return port.optional; });
    for (std::size_t i = 0; i < op->examples().size(); ++i) {
      cases.push_back({op, i, false});
      if (has_optional) cases.push_back({op, i, true});
    }
  }
  return cases;
}

std::vector<Case> float_cases() {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [](const Case& c) {
    const auto& inputs = c.example().inputs;
    const auto& ports = c.op->input_ports();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_given = !c.without_optional || i >= ports.size() || !ports[i].optional;
      if (is_given && inputs[i].dtype == DType::kF32) return false;
    }
    return true;
  });
  return cases;
}

std::vector<Case> gradient_cases() {
  std::vector<Case> cases = float_cases();
  std::erase_if(cases, [](const Case& c) { return !c.op->has_gradient() || !c.example().check_gradient; });
  return cases;
}

std::vector<HostTensor> case_inputs(const Case& c, std::optional<DType> floating) {
  const Example& example = c.example();
  Range range{example.low, example.high, example.int_low, example.int_high};
  std::vector<HostTensor> inputs;
  const auto& ports = c.op->input_ports();
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    if (c.without_optional && i < ports.size() && ports[i].optional) {
      inputs.emplace_back();
      continue;
    }
    TensorType type = example.inputs[i];
    if (floating && is_floating(type.dtype)) type.dtype = *floating;
    inputs.push_back(random_tensor(type, range, hash(c.name()) + i));
  }
  return inputs;
}

CaseGraph::CaseGraph(const Case& c, const std::vector<HostTensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    bool absent = tensors[i] == HostTensor();
    inputs.push_back(absent ? nullptr : graph.add_input(fmt::format("input{}", i), tensors[i].type()));
  }
  op = graph.add_op(*c.op, inputs, c.example().attrs);
}

Tensors CaseGraph::bind(const std::vector<HostTensor>& tensors) const {
  Tensors known;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (inputs[i] != nullptr) known.emplace(inputs[i], tensors[i]);
  }
  return known;
}

}  // namespace aspen::testing
