// OpDef: all that is known of one kind of op, and OpRegistry: all kinds there are. An op folder defines its
// op in `define_<folder>(OpRegistry&)`; the list of those calls is written by CMake.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

class Builder;

struct Port {
  std::string name;
  std::string doc;
  bool optional = false;
  bool variadic = false;  // last port only
};

// What a shape rule sees: the op name for messages, inputs and attributes.
class InferContext {
 public:
  InferContext(const OpDef& def, const std::vector<Value*>& inputs, const Attrs& attrs)
      : def_(def), inputs_(inputs), attrs_(attrs) {}
  const char* who() const;
  std::size_t num_inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  const TensorType& in(std::size_t i) const { return inputs_[i]->type(); }
  template <class A>
  const A& attrs() const {
    return attrs_.as<A>();
  }
  // Throws "[op] <message>" unless the condition holds.
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) throw UserError("[{}] {}", who(), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const OpDef& def_;
  const std::vector<Value*>& inputs_;
  const Attrs& attrs_;
};

using InferFunction = std::function<std::vector<TensorType>(const InferContext&)>;

// What a gradient rule sees. It adds ops through `b` and says for each input that needs a gradient what becomes of it:
// set, zero or no_gradient. An input it says nothing about is our bug.
class GradientContext {
 public:
  GradientContext(Builder& builder, const Op& op, std::vector<Value*> output_gradients, std::vector<bool> needed)
      : b(builder), op(op), output_gradients_(std::move(output_gradients)), needed_(std::move(needed)),
        answers_(op.num_inputs()) {}

  Builder& b;
  const Op& op;

  enum class Flow : std::uint8_t { kUnsaid, kGradient, kZero, kNone };

  Value* in(std::size_t i) const { return op.input(i); }
  Value* out(std::size_t i = 0) const { return op.output(i); }
  // Gradient arriving at an output; nullptr when none does. The first output of a one-output op always has one.
  Value* grad(std::size_t i = 0) const { return output_gradients_[i]; }
  bool needs(std::size_t i) const { return needed_[i]; }

  void set(std::size_t i, Value* gradient) { answers_[i] = {Flow::kGradient, gradient}; }
  // The input is on a path to the loss, and its gradient is exactly zero (rounding, an empty slice). As in PyTorch a
  // parameter reached in this way alone has a gradient of zeros: weight decay and momentum apply to it.
  void zero(std::size_t i) { answers_[i] = {Flow::kZero, nullptr}; }
  // No gradient flows to the input: a parameter behind it is not trained through this op.
  void no_gradient(std::size_t i) { answers_[i] = {Flow::kNone, nullptr}; }

  Flow flow(std::size_t i) const { return answers_[i].flow; }
  Value* gradient(std::size_t i) const { return answers_[i].gradient; }  // where the flow is kGradient
  template <class A>
  const A& attrs() const {
    return op.attrs<A>();
  }

 private:
  struct Answer {
    Flow flow = Flow::kUnsaid;
    Value* gradient = nullptr;
  };
  std::vector<Value*> output_gradients_;
  std::vector<bool> needed_;
  std::vector<Answer> answers_;  // one per input of op
};

using GradientFunction = std::function<void(GradientContext&)>;
using ProductsFunction = std::function<double(const Op&)>;
using InplaceFunction = std::function<std::vector<std::pair<std::size_t, std::size_t>>(const Op&)>;

// A typical use of the op; the generic tests run each one on every backend and check its gradient by finite
// differences. Floating inputs are drawn from [low, high); integer inputs from [int_low, int_high).
struct Example {
  std::vector<TensorType> inputs;
  Attrs attrs;
  double low = -1, high = 1;
  std::int64_t int_low = 0, int_high = 2;
  bool check_gradient = true;  // false: says in a comment beside it why not
};

class OpDef {
 public:
  explicit OpDef(std::string name) : name_(std::move(name)) {}

  // -- said once, in define_<folder> --------------------------------------------------------------------
  OpDef& summary(std::string text) {
    summary_ = std::move(text);
    return *this;
  }
  OpDef& input(std::string name, std::string doc) {
    inputs_.push_back({std::move(name), std::move(doc)});
    return *this;
  }
  OpDef& optional_input(std::string name, std::string doc) {
    inputs_.push_back({std::move(name), std::move(doc), true});
    return *this;
  }
  OpDef& inputs(std::string name, std::string doc) {
    inputs_.push_back({std::move(name), std::move(doc), false, true});
    return *this;
  }
  OpDef& output(std::string name, std::string doc) {
    outputs_.push_back({std::move(name), std::move(doc)});
    return *this;
  }
  OpDef& outputs(std::string name, std::string doc) {
    outputs_.push_back({std::move(name), std::move(doc), false, true});
    return *this;
  }
  OpDef& infer(InferFunction rule) {
    infer_ = std::move(rule);
    return *this;
  }
  OpDef& gradient(GradientFunction rule) {
    gradient_ = std::move(rule);
    return *this;
  }
  // Output i may take over the buffer of this input: the kernel reads element k before it writes element k.
  OpDef& inplace(std::size_t output, std::size_t input) {
    inplace_.emplace_back(output, input);
    return *this;
  }
  // The same where it depends on the attributes.
  OpDef& inplace(InplaceFunction rule) {
    inplace_rule_ = std::move(rule);
    return *this;
  }
  // It runs graphs that are among its attributes. The compiler makes its kernel, whatever the backend.
  OpDef& owns_graphs() {
    owns_graphs_ = true;
    return *this;
  }
  // The output is the input's bytes under another shape: no kernel runs, both share one buffer.
  OpDef& alias() {
    alias_ = true;
    return *this;
  }
  // It does something besides giving results: on the host, on standard error, to a variable. It runs exactly as often
  // as the model says and in the model's order: never dropped, merged, folded, copied or moved across another such op.
  OpDef& impure() {
    impure_ = true;
    return *this;
  }
  // An impure op that is dropped all the same when nothing uses its results.
  OpDef& droppable() {
    droppable_ = true;
    return *this;
  }
  // The results depend on seed, step or replica: never folded, never merged. Run again in the same step, it gives the
  // same.
  OpDef& random() {
    random_ = true;
    return *this;
  }
  // Operands broadcast by numpy rules: what was broadcast for the op may be handed over as it was before.
  OpDef& broadcasts() {
    broadcasts_ = true;
    return *this;
  }
  // Each element of the result takes a few instructions and the same element of the input alone. Ops whose operands
  // broadcast are of this kind anyway.
  OpDef& pointwise() {
    pointwise_ = true;
    return *this;
  }
  // Pointwise, and as fast as its result can be read from memory: rather computed again than kept.
  OpDef& quick() {
    quick_ = true;
    return *this;
  }
  // The result is part of the program: nothing computes it, and it is always at hand.
  OpDef& stored() {
    stored_ = true;
    return *this;
  }
  // Means something to `differentiate` alone: afterwards output i is input i, and the op is gone.
  OpDef& marker() {
    marker_ = true;
    return *this;
  }
  // Whatever the results are used for, the inputs have no part in it as far as gradients go.
  OpDef& stops_gradients() {
    stops_gradients_ = true;
    return *this;
  }
  // Operands may be i64, which no other op takes: integers as the host has them, on their way to 32 bits.
  OpDef& takes_wide() {
    takes_wide_ = true;
    return *this;
  }
  // One input may be i64, and these integers go no further.
  OpDef& reads_wide(std::size_t input) {
    wide_input_ = input;
    return *this;
  }
  // Multiplications it takes, where that is far more than it has elements. Without it an op counts its elements only.
  OpDef& products(ProductsFunction count) {
    products_ = std::move(count);
    return *this;
  }
  OpDef& example(Example e) {
    examples_.push_back(std::move(e));
    return *this;
  }

  // -- asked by everybody else ----------------------------------------------------------------------------
  const std::string& name() const { return name_; }
  const std::string& summary() const { return summary_; }
  const std::vector<Port>& input_ports() const { return inputs_; }
  const std::vector<Port>& output_ports() const { return outputs_; }
  const Port& input_port(std::size_t i) const { return inputs_[std::min(i, inputs_.size() - 1)]; }  // of input i
  std::size_t input_index(std::string_view port) const;
  std::size_t output_index(std::string_view port) const;
  bool has_gradient() const { return gradient_ != nullptr; }
  bool is_alias() const { return alias_; }
  bool is_impure() const { return impure_; }
  bool is_droppable() const { return droppable_ || !impure_; }  // when nothing uses its results
  bool is_random() const { return random_; }
  // Whether equal inputs and attributes give equal results, and nothing else happens: it may be merged and folded.
  bool is_function() const { return !impure_ && !random_; }
  bool is_source() const { return inputs_.empty() && is_function(); }  // always gives the same
  bool is_stored() const { return stored_; }
  bool is_marker() const { return marker_; }
  bool does_broadcast() const { return broadcasts_; }
  bool is_pointwise() const { return pointwise_ || broadcasts_; }
  bool is_quick() const { return quick_; }
  bool does_stop_gradients() const { return stops_gradients_; }
  bool does_read_wide(std::size_t input) const { return wide_input_ == input; }
  double num_products(const Op& op) const { return products_ == nullptr ? 0 : products_(op); }
  const std::vector<std::pair<std::size_t, std::size_t>>& inplace_pairs() const { return inplace_; }
  std::vector<std::pair<std::size_t, std::size_t>> inplace_pairs(const Op& op) const {
    return inplace_rule_ == nullptr ? inplace_ : inplace_rule_(op);
  }
  bool does_own_graphs() const { return owns_graphs_; }
  const std::vector<Example>& examples() const { return examples_; }
  const Attrs& default_attrs() const { return default_attrs_; }

  std::vector<TensorType> infer(const std::vector<Value*>& inputs, const Attrs& attrs) const;
  void gradient(GradientContext& context) const { gradient_(context); }

 private:
  friend class OpRegistry;
  void check_width(const TensorType& type, bool may_be_wide) const;

  std::string name_, summary_;
  std::vector<Port> inputs_, outputs_;
  InferFunction infer_;
  GradientFunction gradient_;
  std::vector<std::pair<std::size_t, std::size_t>> inplace_;
  InplaceFunction inplace_rule_;
  ProductsFunction products_;
  bool alias_ = false, impure_ = false, droppable_ = false, random_ = false, broadcasts_ = false, pointwise_ = false,
       quick_ = false, stored_ = false, marker_ = false, stops_gradients_ = false, owns_graphs_ = false,
       takes_wide_ = false;
  std::optional<std::size_t> wide_input_;
  std::vector<Example> examples_;
  Attrs default_attrs_;
};

class OpRegistry {
 public:
  template <class A = NoAttrs>
  OpDef& define(std::string name) {
    OpDef& def = insert(std::move(name));
    def.default_attrs_ = Attrs::of(A{});
    return def;
  }
  const OpDef& find(std::string_view name) const;  // unknown: UserError with near matches
  const OpDef* try_find(std::string_view name) const;
  std::vector<const OpDef*> all() const;  // by name

 private:
  OpDef& insert(std::string name);
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> defs_;
};

// All ops of aspen/ops, defined once (implemented by the generated list in the ops target).
const OpRegistry& op_registry();

}  // namespace aspen
