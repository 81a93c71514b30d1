#include "aspen/compiler/autodiff/body_derivative.h"

#include <map>
#include <unordered_map>

#include "aspen/compiler/ir/body.h"

namespace aspen {
namespace {

using Operand = BodyDerivative::Operand;

// Cheaper to make again than to keep: nothing computes it, or it is no larger in memory than what it is made of.
bool is_made_again(const Op& op) { return op.def().is_source() || op.def().is_alias() || op.is("broadcast"); }

// Takes apart a body to which its backward pass has been added.
class Cutter {
 public:
  Cutter(const Graph& whole, std::size_t num_inputs, const std::vector<bool>& passing, BodyDerivative& result)
      : whole_(whole), result_(result), forward_(*result.forward), backward_(*result.backward) {
    for (std::size_t i = 0; i < whole.inputs().size(); ++i) {
      const Value& input = *whole.inputs()[i];
      if (i < num_inputs) forward_.add_input(input);
      const bool is_kept = i < num_inputs && !passing[i];
      if (is_kept) kept_.emplace(&input, Operand{Operand::Kind::kInput, i});
    }
  }

  void arrives(const Value* gradient, std::size_t result) {
    kept_.emplace(gradient, Operand{Operand::Kind::kArriving, result});
  }

  void run(std::size_t num_results) {
    for (const auto& op : whole_.ops()) {
      if (!op->backward) forward_.copy(*op);
    }
    for (std::size_t i = 0; i < num_results; ++i) {
      const Graph::Output& output = whole_.outputs()[i];
      forward_.graph().add_output(output.name, forward_[output.value]);
    }
    for (const auto& op : whole_.ops()) {
      if (!op->backward) continue;
      for (const Value* input : op->inputs()) bring(input);
      backward_.copy(*op);
    }
  }

  Value* in_backward(const Value* value) {
    bring(value);
    return backward_[value];
  }

 private:
  // Makes a value of the forward pass known to the backward one.
  void bring(const Value* value) {
    if (value == nullptr || backward_.has(value)) return;
    const Op* producer = value->producer();
    if (producer != nullptr && is_made_again(*producer)) {
      for (const Value* input : producer->inputs()) bring(input);
      backward_.copy(*producer);
      return;
    }
    auto found = kept_.find(value);
    if (found == kept_.end()) found = kept_.emplace(value, save(value)).first;
    backward_.add_input(*value);
    result_.operands.push_back(found->second);
  }

  Operand save(const Value* value) {
    forward_.graph().add_output("saved", forward_[value]);
    return {Operand::Kind::kSaved, result_.num_saved++};
  }

  const Graph& whole_;
  BodyDerivative& result_;
  GraphCopier forward_, backward_;
  std::unordered_map<const Value*, Operand> kept_;
};

}  // namespace

BodyDerivative differentiate_body(const Graph& body, const std::vector<bool>& wanted, const std::vector<bool>& arriving,
                                  const std::vector<bool>& passing) {
  using Flow = GradientContext::Flow;
  std::unique_ptr<Graph> whole = copy_body(body);
  const std::size_t num_inputs = body.inputs().size();
  std::map<std::size_t, Value*> seeds;  // by result
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    if (arriving[i]) seeds.emplace(i, whole->add_input("", body.outputs()[i].value->type()));
  }
  Differentiator differentiator(*whole);
  differentiator.builder().backward = true;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (wanted[i]) differentiator.paths().begin_at(*whole->inputs()[i]);
  }
  for (const auto& [result, seed] : seeds) {
    Value* root = whole->outputs()[result].value;
    if (differentiator.wants_gradient(root)) differentiator.add(root, seed);
  }
  differentiator.visit_all();
  std::vector<GradientAnswer> answers(num_inputs, {Flow::kNone, nullptr});
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (wanted[i]) answers[i] = differentiator.answer_for(whole->inputs()[i].get());
  }

  BodyDerivative result;
  result.forward = std::make_unique<Graph>(body.name());
  result.backward = std::make_unique<Graph>(body.name() + "_gradient");
  Cutter cutter(*whole, num_inputs, passing, result);
  for (const auto& [index, seed] : seeds) cutter.arrives(seed, index);
  cutter.run(body.outputs().size());
  for (const GradientAnswer& answer : answers) {
    result.flows.push_back(answer.flow);
    result.gradients.push_back(answer.gradient == nullptr ? nullptr : cutter.in_backward(answer.gradient));
  }
  return result;
}

}  // namespace aspen
