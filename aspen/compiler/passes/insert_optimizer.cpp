#include "aspen/compiler/passes/insert_optimizer.h"

#include <cmath>
#include <map>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/accumulate_gradients.h"
#include "aspen/compiler/passes/anchor_gradients.h"
#include "aspen/compiler/passes/loss_scaler.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/placement/shard_weights.h"
#include "aspen/ops/build.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/ops/replica/replica.h"

namespace aspen {
namespace {

struct State {
  DType dtype = DType::kF32;
  double initial = 0;
  bool is_square = false;
};

// Squares of gradients soon are too small for half. Where they became 0 the update would divide by nothing but epsilon;
// the least number that half has instead makes steps shorter, never longer.
constexpr double kLeastSquare = 0x1p-24;

// The op that updates the parameters of a group, and the states it keeps for each.
struct Update {
  std::string op;
  Attrs attrs;
  std::vector<State> states = {};
  bool counts_steps = true;
};

Update update_of(const OptimizerSpec& spec, const OptimizerSpec::Group& group) {
  State first{.dtype = spec.first_order_type}, second{.dtype = spec.second_order_type, .is_square = true};
  if (spec.kind == "sgd") {
    return {"sgd", Attrs::of(SgdAttrs{.momentum = group.momentum, .nesterov = group.nesterov}),
            std::vector<State>(group.momentum ? 1 : 0, first), group.momentum};
  }
  if (spec.kind == "adam" || spec.kind == "adamw") {
    AdamAttrs attrs{.decoupled = spec.kind == "adamw", .bias_correction = spec.bias_correction};
    return {"adam", Attrs::of(attrs), {first, second}, spec.bias_correction};
  }
  if (spec.kind == "rmsprop") {
    RmspropAttrs attrs{.momentum = group.momentum, .centered = spec.centered, .tf_variant = spec.tf_variant};
    second.initial = spec.tf_variant ? 1 : 0;
    std::vector<State> states{second};
    states.resize(1 + (spec.centered ? 1 : 0) + (group.momentum ? 1 : 0), first);
    return {"rmsprop", Attrs::of(attrs), std::move(states), false};
  }
  if (spec.kind == "lamb") {
    return {
        "lamb", Attrs::of(LambAttrs{.bias_correction = spec.bias_correction}), {first, second}, spec.bias_correction};
  }
  throw UserError("unknown optimizer \"{}\"; the kinds are sgd, adam, adamw, rmsprop and lamb.", spec.kind);
}

class OptimizerInserter {
 public:
  OptimizerInserter(Graph& graph, const CompileOptions& options)
      : graph_(graph), b_(graph), options_(options), spec_(options.optimizer),
        section_(has_update_section(graph, options) ? Section::kUpdate : Section::kStep), settings_(add_settings()),
        scaler_(graph, options, settings_.empty() ? nullptr : settings_[0], section_) {}

  void run() {
    auto parameters = find_updated();
    if (parameters.empty()) return;
    scaler_.adjust(home_of(*parameters[0]));
    if (scaler_.scales()) {
      scaler_.scale_seed();
      unscale_anchored();
    }
    warn_of_what_stays_whole();
    if (section_ == Section::kStep) round_like_accumulators(parameters);
    unscale_and_clip(parameters);
    for (Variable* parameter : parameters) update(*parameter);
  }

 private:
  std::vector<Variable*> add_settings() {
    std::vector<Variable*> settings;
    for (std::size_t i = 0; i < spec_.groups.size(); ++i) {
      TensorType type{DType::kF32, {static_cast<std::int64_t>(kNumSettings)}};
      settings.push_back(graph_.add_variable(fmt::format("settings___{}", i), VariableKind::kSetting, type));
      for (const auto& parameter : spec_.groups[i].parameters) group_of_.emplace(parameter, i);
    }
    return settings;
  }

  // Parameters that have a gradient and belong to a group.
  std::vector<Variable*> find_updated() const {
    auto parameters = variables_with_gradients(graph_);
    std::erase_if(parameters, [&](const Variable* parameter) { return group_of_.count(parameter->name) == 0; });
    return parameters;
  }

  // Goes to where the parameter is updated.
  void go_home(const Variable& parameter) {
    b_.like(home_of(parameter));
    b_.no_grad = false;
    b_.section = section_;
    b_.backward = section_ == Section::kStep;
  }

  // The host is given gradients as they are without loss scaling.
  void unscale_anchored() {
    std::map<std::string, std::size_t, std::less<>> outputs;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) outputs.emplace(graph_.outputs()[i].name, i);
    for (const Anchor& anchor : options_.anchors) {
      if (!is_gradient_name(anchor.tensor)) continue;
      std::size_t i = outputs.at(kAnchorPrefix + anchor.name);
      Value* gradient = graph_.outputs()[i].value;
      b_.like(*gradient->producer());
      b_.no_grad = false;
      b_.backward = true;
      Value* unscaled = build::div(b_, build::cast(b_, gradient, DType::kF32), scaler_.scale(b_));
      graph_.set_output(i, build::cast(b_, unscaled, gradient->dtype()));
    }
  }

  // Where there is nothing to add up there are no accumulators; what they would have lost is lost all the same, so that
  // the result does not depend on the number of devices.
  void round_like_accumulators(const std::vector<Variable*>& parameters) {
    if (spec_.accumulator_type != DType::kF16) return;
    for (Variable* parameter : parameters) {
      go_home(*parameter);
      graph_.set_gradient(*parameter, build::cast(b_, parameter->gradient(), DType::kF16));
    }
  }

  // Divides by the loss scale and brings the norm over all gradients below max_grad_norm, as clip_grad_norm_ does.
  void unscale_and_clip(const std::vector<Variable*>& parameters) {
    if (std::isfinite(spec_.max_grad_norm)) {
      Value* factor = clip_factor(parameters);
      for (Variable* parameter : parameters) {
        Value* gradient = float_gradient(*parameter);
        graph_.set_gradient(*parameter, build::mul(b_, gradient, factor));
      }
    } else if (scaler_.scales()) {
      std::map<std::int64_t, Value*> scales;  // by device: each reads the setting itself
      for (Variable* parameter : parameters) {
        go_home(*parameter);
        Value*& scale = scales[b_.placement.device];
        if (scale == nullptr) scale = scaler_.scale(b_);
        Value* gradient = float_gradient(*parameter);
        graph_.set_gradient(*parameter, build::div(b_, gradient, scale));
      }
    }
  }

  // What has to be multiplied with all gradients, on the device of the first.
  Value* clip_factor(const std::vector<Variable*>& parameters) {
    for (const Variable* parameter : parameters) check_shared(*parameter);
    const Variable& first = *parameters[0];
    go_home(first);
    Value* scale = scaler_.scales() ? scaler_.scale(b_) : nullptr;
    Value* norm_squared = nullptr;
    for (const Variable* parameter : parameters) {
      go_home(*parameter);
      Value* part = build::unary(b_, "square_sum", parameter->gradient());
      go_home(first);
      norm_squared = norm_squared == nullptr ? part : build::add(b_, norm_squared, part);
    }
    if (scale != nullptr) norm_squared = build::div(b_, norm_squared, build::mul(b_, scale, scale));
    Value* factor = b_.make("clip_scale", {norm_squared}, ClipScaleAttrs{spec_.max_grad_norm});
    return scale != nullptr ? build::div(b_, factor, scale) : factor;
  }

  void check_shared(const Variable& parameter) const {
    std::size_t num_groups = parameter.grouping.num_groups(options_.replicas);
    if (num_groups == 1) return;
    throw UserError(
        "max_grad_norm = {} cannot be used with parameter \"{}\", of which each of {} groups of replicas holds a value "
        "of its own: replicas would find different norms and scale the parameters they share differently. Leave "
        "max_grad_norm out, or let all replicas share the parameter.",
        spec_.max_grad_norm, parameter.name, num_groups);
  }

  // On its device, and in float32: what scaling has saved from vanishing in half must not vanish now.
  Value* float_gradient(const Variable& parameter) {
    go_home(parameter);
    return build::cast(b_, parameter.gradient(), DType::kF32);
  }

  void update(Variable& parameter) {
    std::size_t group = group_of_.at(parameter.name);
    Update kind = update_of(spec_, spec_.groups[group]);
    bool is_sharded = has_sharded_state(parameter);
    go_home(parameter);
    Value* whole = current(parameter);
    Value* usable = scaler_.is_usable(b_, parameter.gradient());
    // Automatic loss scaling: an overflow leaves everything as it was, and the next update has a smaller scale.
    const auto unless_overflow = [&](Value* after, Value* before) {
      return usable == nullptr ? after : build::select(b_, usable, after, before);
    };
    Variable* step = kind.counts_steps ? add_step(parameter) : nullptr;
    Value* steps_before = step != nullptr ? step->value.get() : build::scalar(b_, DType::kF32, 0);
    std::vector<Value*> inputs{whole, parameter.gradient(), settings_[group]->value.get(), steps_before};
    if (is_sharded && spec_.kind != "lamb") {
      for (std::size_t i : {0, 1}) inputs[i] = sliced(inputs[i], parameter);
    }
    std::vector<Variable*> states;
    for (const State& state : kind.states) {
      std::string name = fmt::format("Accl{}___{}", states.size() + 1, parameter.name);
      states.push_back(add_state(std::move(name), state, parameter, is_sharded));
      inputs.push_back(states.back()->value.get());
    }
    Op* op = is_sharded && spec_.kind == "lamb" ? emit_sharded_lamb(inputs, parameter)
                                                : b_.emit(kind.op, std::move(inputs), kind.attrs);
    Value* updated = unless_overflow(op->output(), op->input(0));
    if (is_sharded) updated = b_.make("replica_write", {whole, updated}, replica_attrs());
    parameter.gathered = is_sharded;
    updated->set_name("UpdatedVar___" + parameter.name);
    b_.emit("assign", {parameter.value.get(), updated});
    for (std::size_t i = 0; i < states.size(); ++i) {
      Value* before = states[i]->value.get();
      Value* after = op->output(1 + i);
      if (kind.states[i].is_square && before->dtype() == DType::kF16) {
        after = build::binary(b_, "max", after, kLeastSquare);
      }
      b_.emit("assign", {before, unless_overflow(after, before)});
    }
    if (step == nullptr) return;
    b_.emit("assign", {steps_before, unless_overflow(build::add(b_, steps_before, 1), steps_before)});
  }

  // LAMB needs norms of whole tensors: each replica finds its part of them, and goes on when all have done so. What it
  // takes of the weight and the gradient it takes twice, so that nothing of their size is kept in between.
  Op* emit_sharded_lamb(std::vector<Value*> inputs, const Variable& parameter) {
    Value *weight = inputs[0], *gradient = inputs[1];
    auto take = [&] { inputs[0] = own_part(weight, parameter), inputs[1] = own_part(gradient, parameter); };
    take();
    LambNormsAttrs attrs{.bias_correction = spec_.bias_correction,
                         .numel = parameter.value->type().numel(),
                         .replicas = replica_attrs().replicas};
    Value* norms = b_.make("replica_sum", {b_.make("lamb_norms", inputs, attrs)}, replica_attrs());
    take();
    inputs.push_back(norms);
    return b_.emit("lamb_step", std::move(inputs), LambAttrs{.bias_correction = spec_.bias_correction});
  }

  // The replica's own shard of a value, which may be one already: a sum of gradients.
  Value* sliced(Value* value, const Variable& parameter) {
    bool is_whole = value->shape() == parameter.value->shape();
    return is_whole ? b_.make("replica_slice", {value}, replica_attrs()) : value;
  }

  // The same, computed from shards as far as that goes.
  Value* own_part(Value* value, const Variable& parameter) {
    Op* op = value->producer();
    bool is_local = op != nullptr && op->section == section_ && op->def().is_pointwise() && op->num_outputs() == 1;
    std::int64_t numel = value->type().numel();
    for (std::size_t i = 0; is_local && i < op->num_inputs(); ++i) {
      std::int64_t count = op->input(i)->type().numel();
      is_local = count == 1 || count == numel;
    }
    if (!is_local || numel == 1) return sliced(value, parameter);
    std::vector<Value*> inputs = op->inputs();
    for (Value*& input : inputs) {
      if (input->type().numel() == numel) input = own_part(input, parameter);
    }
    return b_.emit(op->name(), std::move(inputs), op->attrs())->output();
  }

  Variable* add_step(const Variable& parameter) {
    Variable* step = graph_.add_variable("Step___" + parameter.name, VariableKind::kOptimizerState, {DType::kF32, {}});
    step->grouping = parameter.grouping;
    return step;
  }

  ReplicaAttrs replica_attrs() const { return {.replicas = static_cast<std::int64_t>(options_.replicas)}; }

  bool has_sharded_state(const Variable& parameter) const {
    if (is_sharded_weight(graph_, parameter, options_) || is_sharded_sum(parameter, options_)) return true;
    const TensorLocation& location = options_.locations.optimizer_state;
    return location.sharded && options_.replicas > 1 && parameter.grouping.kind == ReplicaGrouping::Kind::kAll &&
           parameter.value->type().numel() >= location.min_shard_elements;
  }

  void warn_of_what_stays_whole() const {
    if (options_.replicas == 1) return;
    if (options_.locations.accumulators.sharded && needs_whole_sums(options_)) {
      log::warn(
          "sums of gradients are not sharded over the replicas, as max_grad_norm, automatic loss scaling and "
          "stochastic rounding need them whole. Results are the same.");
    }
  }

  Variable* add_state(std::string name, const State& kept, const Variable& parameter, bool is_sharded) {
    std::int64_t numel = parameter.value->type().numel();
    Shape shape = is_sharded ? Shape{shard_elements(numel, options_.replicas)} : parameter.value->shape();
    DType dtype = spec_.keeps_parameter_types ? parameter.value->dtype() : kept.dtype;
    Variable* state = graph_.add_variable(std::move(name), VariableKind::kOptimizerState, {dtype, std::move(shape)});
    state->initial = kept.initial;
    state->grouping = parameter.grouping;
    state->sharded = is_sharded;
    if (is_sharded) state->numel = numel;
    return state;
  }

  // What the parameter holds when it is updated: its value, or what the model itself assigned to it in this section.
  Value* current(const Variable& parameter) {
    for (Op* user : parameter.value->users()) {
      if (!user->is("assign") || user->input(0) != parameter.value.get() || user->section != b_.section) continue;
      Value* written = user->input(1);
      graph_.erase(user);
      return written;
    }
    return parameter.value.get();
  }

  Graph& graph_;
  Builder b_;
  const CompileOptions& options_;
  const OptimizerSpec& spec_;
  Section section_;  // of the update
  std::map<std::string, std::size_t, std::less<>> group_of_;
  std::vector<Variable*> settings_;
  LossScaler scaler_;
};

}  // namespace

void insert_optimizer(Graph& graph, const PassContext& context) {
  if (!context.options.optimizer.kind.empty()) OptimizerInserter(graph, context.options).run();
  for (Variable* variable : variables_with_gradients(graph)) graph.set_gradient(*variable, nullptr);
}

const Condition kNoGradients{"no_gradients", [](const Graph& graph) -> std::string {
                               auto left = variables_with_gradients(graph);
                               return left.empty() ? "" : "variable \"" + left[0]->name + "\" still has a gradient";
                             }};

}  // namespace aspen
