#include "aspen/compiler/passes/accumulate_gradients.h"

#include <cmath>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/ops/build.h"
#include "aspen/ops/replica/replica.h"

namespace aspen {
namespace {

class GradientAccumulator {
 public:
  GradientAccumulator(Graph& graph, const CompileOptions& options)
      : graph_(graph), b_(graph), options_(options),
        num_contributions_(static_cast<double>(options.gradient_accumulation) * static_cast<double>(options.replicas)) {
  }

  void run() {
    for (Variable* parameter : variables_with_gradients(graph_)) accumulate(*parameter);
  }

 private:
  void accumulate(Variable& parameter) {
    Value* gradient = parameter.gradient();
    DType dtype = accumulator_type(gradient->dtype());
    Variable* variable =
        graph_.add_variable("Accum___" + parameter.name, VariableKind::kAccumulator, {dtype, gradient->shape()});
    variable->grouping = parameter.grouping;
    bool is_sharded = is_sharded_sum(parameter, options_);
    variable->reduced = options_.replicas > 1 && !is_sharded;
    if (is_sharded) graph_.shard(*variable, options_.replicas);
    Value* sum = variable->value.get();
    bool has_one = options_.gradient_accumulation == 1 && !is_sharded;

    b_.like(home_of(parameter));
    b_.no_grad = false;
    b_.backward = true;
    b_.section = Section::kStep;
    // Divided in the wider of the two types, so that little is rounded twice.
    Value* contribution = dtype == DType::kF16 ? gradient : build::cast(b_, gradient, dtype);
    if (options_.running_mean) contribution = mean_of(contribution);
    contribution = build::cast(b_, contribution, dtype);
    if (is_sharded) {
      b_.emit("replica_add", {sum, contribution}, ReplicaAttrs{static_cast<std::int64_t>(options_.replicas)});
    } else {
      b_.emit("assign", {sum, has_one ? contribution : build::add(b_, sum, contribution)});
    }

    b_.section = Section::kUpdate;
    b_.backward = false;
    Value* reduced = options_.running_mean ? sum : mean_of(sum);
    if (reduced != sum) reduced->set_name("ReducedGradient___" + parameter.name);  // for the reader
    graph_.set_gradient(parameter, reduced);
    if (!has_one) b_.emit("assign", {sum, build::full_like(b_, sum, 0)});
  }

  DType accumulator_type(DType gradient) const {
    if (options_.optimizer.keeps_parameter_types) return gradient;
    if (options_.optimizer.accumulator_type == DType::kF16) return DType::kF16;
    return is_narrow_float(gradient) ? DType::kF32 : gradient;
  }

  Value* mean_of(Value* sum) {
    return options_.mean_reduction && num_contributions_ > 1 ? build::binary(b_, "div", sum, num_contributions_) : sum;
  }

  Graph& graph_;
  Builder b_;
  const CompileOptions& options_;
  double num_contributions_;
};

}  // namespace

void accumulate_gradients(Graph& graph, const PassContext& context) {
  if (has_update_section(graph, context.options)) GradientAccumulator(graph, context.options).run();
}

bool needs_whole_sums(const CompileOptions& options) {
  return std::isfinite(options.optimizer.max_grad_norm) || options.automatic_loss_scaling ||
         options.stochastic_rounding;
}

bool is_sharded_sum(const Variable& parameter, const CompileOptions& options) {
  const TensorLocation& location = options.locations.accumulators;
  const DType dtype = parameter.value->dtype();
  return location.sharded && options.replicas > 1 && !needs_whole_sums(options) &&
         (dtype == DType::kF32 || dtype == DType::kF16) && parameter.grouping.kind == ReplicaGrouping::Kind::kAll &&
         parameter.value->type().numel() >= location.min_shard_elements;
}

bool has_update_section(const Graph& graph, const CompileOptions& options) {
  return options.gradient_accumulation > 1 || options.replicas > 1 || devices_in_use(graph).size() > 1;
}

}  // namespace aspen
