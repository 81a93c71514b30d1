// The graph: a list of ops in topological order over values in SSA form, with static types.
//
// Meaning. A graph is run once per micro-batch. Inputs arrive fresh for each run. A variable (parameter,
// buffer, optimiser state) keeps its contents between runs: its value in the graph is what it held when the
// section began; `assign` stores what it holds afterwards. All reads of a variable in a section therefore come
// before its assign, and the schedule keeps it so. Ops of section kStep run for every micro-batch, those of
// kUpdate once after the last micro-batch of a weight update; only variables carry values between the two.
//
// Ops of aspen/ops/control own graphs, which they run as often as they say: see body.h.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/base/attrs.h"
#include "aspen/base/replica_grouping.h"
#include "aspen/base/tensor_type.h"
#include "aspen/base/variable_kind.h"
#include "aspen/compiler/ir/uses.h"

namespace aspen {

class Graph;
class Op;
class OpDef;
struct Variable;

class Value {
 public:
  std::int64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  std::int64_t rank() const { return type_.rank(); }
  Op* producer() const { return producer_; }                // nullptr for graph inputs and variables
  Variable* variable() const { return variable_; }          // the variable whose value this is, or nullptr
  bool is_output() const { return !output_uses_.empty(); }  // of the graph
  bool is_gradient() const { return gradient_uses_ > 0; }   // of a variable
  bool is_used() const { return !users_.empty() || is_output() || is_gradient(); }
  std::size_t index() const { return index_; }
  // Ops that read this value, one entry per use, in the order the uses were made.
  const Uses& users() const { return users_; }

 private:
  friend class Graph;
  friend class Op;
  std::int64_t id_ = 0;
  std::string name_;
  TensorType type_;
  Op* producer_ = nullptr;
  std::size_t index_ = 0;
  Variable* variable_ = nullptr;
  std::vector<std::size_t> output_uses_;  // which outputs of the graph it is
  std::size_t gradient_uses_ = 0;
  Uses users_;
};

// Where an op comes from, for messages, reports and names.
struct Location {
  std::string scope;   // module path: "layer1/0/conv1"
  std::string source;  // "model.py:42, Decoder.forward"
};

// Where an op runs.
struct Placement {
  std::int64_t device = 0;
  std::int64_t stage = 0;
  std::int64_t phase = 0;
  bool operator==(const Placement&) const = default;
};

enum class Section : std::uint8_t { kStep, kUpdate };

// A part of the graph that one device runs in one go; see runtime/program.h. Made by the pass `partition`.
struct GraphTask {
  std::string name;
  Section section = Section::kStep;
  std::int64_t device = 0;  // as in Placement
  std::int64_t lane = 0;
  std::int64_t stage = 0;
  std::int64_t phase = 0;  // that is run, counted there and back; 0 unless execution is phased
  double cost = 1;
  bool moves = false;  // only brings values to a device that computes
};

// Where values that live longer than a task are kept. Tasks of a lane follow each other for every micro-batch. A lane
// without tasks of its own only receives, for tasks of its device.
struct GraphLane {
  std::int64_t device = 0;
  std::int64_t depth = 1;  // micro-batches that may be under way
};

class Op {
 public:
  const OpDef& def() const { return *def_; }
  const std::string& name() const;  // of the definition: "softmax"
  bool is(std::string_view name) const { return this->name() == name; }

  std::size_t num_inputs() const { return inputs_.size(); }
  std::size_t num_outputs() const { return outputs_.size(); }
  Value* input(std::size_t i) const { return inputs_[i]; }  // nullptr: optional input left out
  Value* output(std::size_t i = 0) const { return outputs_[i].get(); }
  Value* in(std::string_view port) const;  // by port name
  Value* out(std::string_view port) const;
  const std::vector<Value*>& inputs() const { return inputs_; }
  std::vector<Value*> outputs() const;
  void set_input(std::size_t i, Value* value);

  const Attrs& attrs() const { return attrs_; }
  template <class A>
  const A& attrs() const {
    return attrs_.as<A>();
  }
  // As the definition says; of an op that owns graphs, as the ops in these are.
  bool is_impure() const;
  bool is_random() const;
  bool is_function() const { return !is_impure() && !is_random(); }
  bool is_droppable() const;
  // Result and operand that may share a buffer; see OpDef::inplace.
  std::vector<std::pair<std::size_t, std::size_t>> inplace_pairs() const;
  void set_attrs(Attrs attrs) {
    attrs_ = std::move(attrs);
    is_changed_ = true;
  }
  // Whether attributes, or the type of an input, have changed since the types of the outputs were inferred: only then
  // has the verifier to infer them once more.
  bool is_changed() const { return is_changed_; }

  Location location;
  Placement placement;
  Section section = Section::kStep;
  std::int64_t task = -1;  // index into Graph::tasks; -1: not partitioned yet
  bool backward = false;   // made by autodiff, or reads what is; in kStep only
  bool no_grad = false;    // captured while gradients were switched off
  // Takes over all of these from another op.
  void take_stamps(const Op& other);

 private:
  friend class Graph;
  const OpDef* def_ = nullptr;
  std::vector<Value*> inputs_;
  std::vector<Uses::Place> uses_;  // by input, among the users of its value
  std::vector<std::unique_ptr<Value>> outputs_;
  Attrs attrs_;
  bool is_changed_ = false;
  std::list<std::unique_ptr<Op>>::iterator self_;
};

struct Variable {
  std::string name;
  VariableKind kind = VariableKind::kParameter;
  bool trainable = false;    // a parameter that wants gradients
  double initial = 0;        // fill value until somebody writes it
  bool off_device = false;   // kept in host memory; tasks `load` it
  bool reduced = false;      // added up over the replicas before an update
  bool sharded = false;      // each replica keeps a shard; the value has the type of a shard
  bool gathered = false;     // an update writes each replica's own shard of it
  std::int64_t numel = 0;    // of the whole tensor, where the value is a shard
  Shape shape;               // likewise, where it is known
  ReplicaGrouping grouping;  // replicas that hold the same value
  std::unique_ptr<Value> value;

  // The derivative of the loss by this variable, from the time it is computed until the update has used it; otherwise
  // nullptr. Being one is a use of the value, and one value may be the gradient of several variables.
  Value* gradient() const { return gradient_; }

 private:
  friend class Graph;
  Value* gradient_ = nullptr;
};

class Graph final : public OwnedGraph {
 public:
  explicit Graph(std::string name = "main") : name_(std::move(name)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }  // of the model, for messages and files
  void set_name(std::string name) { name_ = std::move(name); }

  std::int64_t num_values() const { return next_id_; }  // ids of values are below it: tables by id are vectors

  Value* add_input(std::string name, TensorType type);
  Variable* add_variable(std::string name, VariableKind kind, TensorType type, bool trainable = false);
  // Leaves each replica one shard of a variable: its value has the type of a shard from now on, whoever reads it.
  void shard(Variable& variable, std::size_t replicas);
  void add_output(std::string name, Value* value);

  // Adds an op at the end (or before `before`), infers and checks its output types.
  Op* add_op(const OpDef& def, std::vector<Value*> inputs, Attrs attrs, Op* before = nullptr);
  void erase(Op* op);                                      // its outputs must have no users
  std::unique_ptr<Op> release(Op* op);                     // the same, for those who still know its values
  void move_before(Op* op, Op* before);                    // nullptr: to the end
  void replace_uses(Value* from, Value* to);               // in ops, in the graph's outputs and as gradients
  void set_gradient(Variable& variable, Value* gradient);  // nullptr: it has none (any more)

  const std::list<std::unique_ptr<Op>>& ops() const { return ops_; }
  const std::vector<std::unique_ptr<Value>>& inputs() const { return inputs_; }
  const std::vector<std::unique_ptr<Variable>>& variables() const { return variables_; }
  Variable* find_variable(std::string_view name) const;  // nullptr when there is none
  Variable* variable_of(const Value* value) const { return value->variable(); }

  struct Output {
    std::string name;
    Value* value;
    bool overlapped = false;  // reaches the host while the devices compute; see placement/overlap_io.h
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  void set_output(std::size_t i, Value* value);
  void overlap_output(std::size_t i) { outputs_[i].overlapped = true; }
  // Inputs that are copied to the devices while these compute, likewise.
  void overlap_input(std::size_t i) { overlapped_inputs_[i] = true; }
  bool is_overlapped_input(std::size_t i) const { return overlapped_inputs_[i]; }
  // Inputs of type i32 that the host has in 64 bits; see placement/narrow_inputs.h, which widens them.
  void mark_wide_input(std::size_t i) { wide_inputs_[i] = true; }
  bool is_wide_input(std::size_t i) const { return wide_inputs_[i]; }
  void widen_input(std::size_t i);  // it is i64 from now on, whoever reads it, and no longer marked
  bool is_output(const Value* value) const { return value->is_output(); }

  // Of a graph that an op owns; see body.h.
  std::string text(std::size_t indent) const override;
  std::size_t hash() const override;
  bool equals(const OwnedGraph& other) const override;

  // Filled by `partition`; before it there are none.
  std::vector<GraphTask> tasks;  // of both sections, those of kStep first, in an order one device could run them
  std::vector<GraphLane> lanes;

 private:
  std::unique_ptr<Value> new_value(TensorType type);

  std::string name_;
  std::int64_t next_id_ = 0;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<bool> overlapped_inputs_, wide_inputs_;  // by input
  std::vector<std::unique_ptr<Variable>> variables_;
  std::map<std::string, Variable*, std::less<>> variables_by_name_;
  std::vector<Output> outputs_;
  std::list<std::unique_ptr<Op>> ops_;
};

}  // namespace aspen
