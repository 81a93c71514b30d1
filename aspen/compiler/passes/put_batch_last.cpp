#include "aspen/compiler/passes/put_batch_last.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/batch_last/batch_last.h"
#include "aspen/ops/build.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/pool/pool.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/softmax/softmax.h"

namespace aspen {
namespace {

// Convolutions that gain by it, measured on one core with AVX-512: those whose channels leave lanes of a vector idle.
constexpr std::int64_t kFewChannels = 16, kMostChannels = 32;
constexpr std::int64_t kLeastBatch = 8;
// What the convolutions of a region read and write, by what is turned around it.
constexpr std::int64_t kLeastGain = 2;

std::int64_t size_of(const Value& value) { return value.type().numel(); }

Shape turned(const Shape& shape) {
  Shape result(shape.begin() + 1, shape.end());
  result.push_back(shape[0]);
  return result;
}

std::vector<std::int64_t> turned_axes(const std::vector<std::int64_t>& axes, std::int64_t rank) {
  std::vector<std::int64_t> result;
  for (std::int64_t axis : axes) result.push_back(axis == 0 ? rank - 1 : axis - 1);
  std::sort(result.begin(), result.end());
  return result;
}

// -- which ops can --------------------------------------------------------------------------------------------------

bool has_few_channels(const ConvAttrs& attrs, const Value& x, const Shape& w) {
  const auto is_one = [](std::int64_t n) { return n == 1; };
  if (x.dtype() != DType::kF32 || x.rank() != 4 || attrs.groups != 1) return false;
  if (!std::all_of(attrs.stride.begin(), attrs.stride.end(), is_one) || size_of(x) == 0) return false;
  return std::min(w[0], w[1]) < kFewChannels && std::max(w[0], w[1]) <= kMostChannels && x.shape()[0] >= kLeastBatch;
}

bool is_small_conv(const Op& op) {
  if (op.is("conv")) return has_few_channels(op.attrs<ConvAttrs>(), *op.input(0), op.input(1)->shape());
  if (op.is("conv_input_grad")) {
    return has_few_channels(op.attrs<ConvGradAttrs>().conv, *op.output(), op.input(1)->shape());
  }
  return op.is("conv_weight_grad") &&
         has_few_channels(op.attrs<ConvGradAttrs>().conv, *op.input(0), op.output()->shape());
}

// Windows of two axes that touch each other, of so few pixels that a byte tells them apart.
bool has_touching_windows(const PoolAttrs& attrs, const Shape& x) {
  if (attrs.kernel.size() != 2 || attrs.kernel != attrs.stride || attrs.kernel[0] * attrs.kernel[1] > 256) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    const bool leaves_rest = attrs.ceil_mode && x[i + 2] % attrs.kernel[i] != 0;
    if (attrs.padding[i] != 0 || (attrs.dilation[i] != 1 && attrs.kernel[i] != 1) || leaves_rest) return false;
  }
  return true;
}

bool is_plain_pool(const Op& op) {
  if (!op.is("max_pool") || op.output()->dtype() != DType::kF32) return false;
  const Value& index = *op.output(1);
  const auto& users = index.users();
  return has_touching_windows(op.attrs<PoolAttrs>(), op.input(0)->shape()) && !index.is_output() &&
         std::all_of(users.begin(), users.end(), [&](const Op* user) {
           return user->is("max_pool_grad") && user->input(1) == &index && user->input(0) != &index;
         });
}

bool is_pointwise(const Op& op) {
  const OpDef& def = op.def();
  return (def.is_pointwise() && !def.is_alias() && !def.does_own_graphs() && op.is_function()) || op.is("checkpoint");
}

bool is_reduction(const Op& op) {
  return op.is("reduce_sum") || op.is("reduce_prod") || op.is("reduce_max") || op.is("reduce_min");
}

// A product of a row for each image with weights.
bool is_linear(const Op& op, const Value& operand) {
  return op.is("dot") && op.output()->dtype() == DType::kF32 && &operand == op.input(0) && &operand != op.input(1) &&
         operand.rank() == 2 && !op.attrs<DotAttrs>().transpose_a;
}

std::int64_t softmax_axis(const Op& op) {
  const std::int64_t axis = op.attrs<SoftmaxAttrs>().axis;
  return axis < 0 ? axis + op.output()->rank() : axis;
}

bool is_softmax(const Op& op) {
  return (op.is("softmax") || op.is("log_softmax") || op.is("softmax_grad") || op.is("log_softmax_grad")) &&
         softmax_axis(op) > 0;
}

// Whether the batch of an op's operands is the first axis of its result.
bool keeps_batch(const Op& op) {
  if (op.is("conv_weight_grad")) return false;
  if (!is_reduction(op)) return true;
  const auto& attrs = op.attrs<ReduceAttrs>();
  return attrs.axes.empty() || attrs.axes[0] != 0;
}

// Whether an op could work on an operand whose batch, its first axis, is the last one.
bool can_turn(const Op& op, const Value& operand) {
  if (op.section != Section::kStep || operand.rank() == 0 || operand.shape()[0] < kLeastBatch) return false;
  if (is_pointwise(op)) return op.num_outputs() == 1 && op.output()->rank() == operand.rank();
  if (op.is("reshape")) return op.output()->rank() > 0 && op.output()->shape()[0] == operand.shape()[0];
  if (op.is("normalize") || op.is("normalize_grad")) return op.output()->rank() == operand.rank();
  if (is_softmax(op)) return true;
  return is_reduction(op) || is_plain_pool(op) || is_linear(op, operand);
}

// Of a small convolution: what it reads and writes beside weights.
std::array<const Value*, 2> images_of(const Op& conv) {
  return {conv.input(0), conv.is("conv_weight_grad") ? conv.input(1) : conv.output()};
}

// -- which ops do ---------------------------------------------------------------------------------------------------

// Connected ops that are turned together or not at all.
class Regions {
 public:
  explicit Regions(const Graph& graph) {
    grow(graph);
    if (regions_.empty()) return;
    for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
      if (feeds_region(**op)) add(**op, number_of(member_among((*op)->output()->users())));
    }
    grow(graph);  // what else reads that
    for (const auto& op : graph.ops()) {
      if (Region* region = find(*op)) count(*op, *region);
    }
  }

  bool is_turned(const Op& op) {
    const Region* region = find(op);
    return region != nullptr && region->gain >= kLeastGain * region->cost;
  }

 private:
  struct Region {
    std::int64_t gain = 0, cost = 0;  // elements
    std::unordered_set<const Value*> turned_around;
  };

  // From small convolutions along the flow of data.
  void grow(const Graph& graph) {
    for (const auto& op : graph.ops()) {
      if (number_of(op.get()) >= 0) continue;
      const std::int64_t region = region_of_operands(*op);
      if (region >= 0 || is_small_conv(*op)) add(*op, region);
    }
  }

  // Whether an op is as well done on the other side of the border: all that read its result can take it turned, one of
  // them does, and it has no more to turn itself.
  bool feeds_region(const Op& op) {
    if (number_of(&op) >= 0 || !(is_pointwise(op) || op.is("reshape")) || op.num_outputs() != 1) return false;
    const Value& result = *op.output();
    std::int64_t to_turn = 0;
    for (const Value* input : op.inputs()) {
      if (input != nullptr && can_turn(op, *input)) ++to_turn;
    }
    const auto& users = result.users();
    const auto can_take = [&](const Op* user) { return number_of(user) >= 0 || can_turn(*user, result); };
    return to_turn == 1 && !result.is_output() && member_among(users) != nullptr &&
           std::all_of(users.begin(), users.end(), can_take);
  }

  const Op* member_among(const Uses& ops) {
    const auto found = std::find_if(ops.begin(), ops.end(), [&](const Op* op) { return number_of(op) >= 0; });
    return found == ops.end() ? nullptr : found->op;
  }

  std::int64_t root(std::int64_t i) {
    while (parents_[static_cast<std::size_t>(i)] != i) i = parents_[static_cast<std::size_t>(i)];
    return i;
  }

  std::int64_t number_of(const Op* op) {
    const auto found = op == nullptr ? numbers_.end() : numbers_.find(op);
    return found == numbers_.end() ? -1 : root(found->second);
  }

  Region* find(const Op& op) {
    const std::int64_t number = number_of(&op);
    return number < 0 ? nullptr : &regions_[static_cast<std::size_t>(number)];
  }

  // A region that hands a value to the op, which can take it as it is; -1: none does.
  std::int64_t region_of_operands(const Op& op) {
    for (const Value* input : op.inputs()) {
      const std::int64_t region = input == nullptr ? -1 : number_of(input->producer());
      if (region < 0 || !keeps_batch(*input->producer())) continue;
      const bool is_place = op.is("max_pool_grad") && input == op.input(1);
      if (is_place || is_small_conv(op) || can_turn(op, *input)) return region;
    }
    return -1;
  }

  // To a region and to all that hand it values or read its results; -1: begins one.
  void add(const Op& op, std::int64_t region) {
    if (region < 0) {
      region = static_cast<std::int64_t>(regions_.size());
      regions_.emplace_back();
      parents_.push_back(region);
    }
    numbers_.emplace(&op, region);
    const auto join = [&](const Op* neighbour) {
      const std::int64_t other = number_of(neighbour);
      if (other >= 0) parents_[static_cast<std::size_t>(other)] = root(region);
    };
    for (const Value* input : op.inputs()) join(input == nullptr ? nullptr : input->producer());
    for (const Value* output : op.outputs()) {
      for (const Op* user : output->users()) join(user);
    }
  }

  void count(const Op& op, Region& region) {
    if (is_small_conv(op)) {
      for (const Value* image : images_of(op)) region.gain += size_of(*image);
    }
    const auto is_outside = [&](const Op* other) { return find_or_null(other) != &region; };
    for (const Value* input : op.inputs()) {
      const bool is_batch = input != nullptr && is_image_operand(op, *input) && is_outside(input->producer());
      if (is_batch && region.turned_around.insert(input).second) region.cost += size_of(*input);
    }
    for (const Value* output : op.outputs()) {
      const auto& users = output->users();
      const bool leaves = output->is_output() || std::any_of(users.begin(), users.end(), is_outside);
      if (leaves && keeps_batch(op) && output->rank() > 1) region.cost += size_of(*output);
    }
  }

  Region* find_or_null(const Op* op) { return op == nullptr ? nullptr : find(*op); }

  // Whether an operand from elsewhere has to be turned: what has no batch is only another shape.
  static bool is_image_operand(const Op& op, const Value& value) {
    if (is_small_conv(op)) return &value == images_of(op)[0] || &value == images_of(op)[1];
    if (op.is("dot")) return &value == op.input(0);
    return value.rank() > 1 && value.shape()[0] >= kLeastBatch && value.rank() == op.input(0)->rank();
  }

  std::vector<Region> regions_;
  std::vector<std::int64_t> parents_;  // by number
  std::unordered_map<const Op*, std::int64_t> numbers_;
};

// -- turning --------------------------------------------------------------------------------------------------------

class Turner {
 public:
  explicit Turner(Graph& graph) : graph_(graph), b_(graph) {}

  // In the order of the graph.
  void turn(Op& op) {
    b_.like(op);
    b_.before = &op;
    if (op.is("conv")) return turn_conv(op);
    if (op.is("conv_input_grad")) return turn_input_grad(op);
    if (op.is("conv_weight_grad")) return turn_weight_grad(op);
    if (op.is("max_pool")) return turn_pool(op);
    if (op.is("max_pool_grad")) return turn_pool_grad(op);
    if (op.is("reshape")) return note(op, build::reshape(b_, turned_value(op.input(0)), turned(op.output()->shape())));
    if (op.is("normalize") || op.is("normalize_grad")) return turn_normalize(op);
    if (is_reduction(op)) return turn_reduction(op);
    if (is_softmax(op)) return turn_softmax(op);
    if (op.is("dot")) return turn_linear(op);
    turn_pointwise(op);
  }

  // Removes the ops as they were. What others read of them is turned back.
  void finish() {
    for (auto op = turned_ops_.rbegin(); op != turned_ops_.rend(); ++op) {
      b_.like(**op);
      b_.before = *op;
      for (Value* result : (*op)->outputs()) {
        if (result->is_used()) replace_value(graph_, result, plain_value(result));
      }
      graph_.erase(*op);
    }
  }

  std::size_t num_ops() const { return turned_ops_.size(); }
  std::size_t num_transposes() const { return num_transposes_; }

 private:
  Value* transpose(Value* value, bool back) {
    std::vector<std::int64_t> permutation(static_cast<std::size_t>(value->rank()));
    std::iota(permutation.begin(), permutation.end(), 0);
    const auto middle = back ? permutation.end() - 1 : permutation.begin() + 1;
    std::rotate(permutation.begin(), middle, permutation.end());
    ++num_transposes_;
    return build::transpose(b_, value, permutation);
  }

  // A value with its batch last; made once, where the first op wants it.
  Value* turned_value(Value* value) {
    Value*& found = turned_[value];
    if (found == nullptr) {
      const bool is_backward = b_.backward;
      b_.backward = value->producer() != nullptr && value->producer()->backward;  // the forward pass may want it too
      found = transpose(value, false);
      b_.backward = is_backward;
    }
    return found;
  }

  Value* plain_value(Value* value) {
    const auto plain = plain_.find(value);
    return plain != plain_.end() ? plain->second : transpose(turned_.at(value), true);
  }

  void note(Op& op, Value* result) {
    turned_[op.output()] = result;
    turned_ops_.push_back(&op);
  }

  // An operand that is broadcast to `rank` axes, of which the first becomes the last.
  Value* turned_operand(Value* operand, std::int64_t rank) {
    if (operand == nullptr || operand->rank() == 0) return operand;
    if (operand->rank() == rank) return turned_value(operand);
    Shape shape(static_cast<std::size_t>(rank - operand->rank()), 1);
    shape.insert(shape.end(), operand->shape().begin(), operand->shape().end());
    return build::reshape(b_, operand, turned(shape));
  }

  void turn_pointwise(Op& op) {
    std::vector<Value*> inputs;
    for (Value* input : op.inputs()) inputs.push_back(turned_operand(input, op.output()->rank()));
    note(op, b_.emit(op.name(), std::move(inputs), op.attrs())->output());
  }

  static ConvLastAttrs attrs_of(const ConvAttrs& conv) { return {conv.padding, conv.dilation}; }

  void turn_conv(Op& op) {
    Value* bias = op.num_inputs() > 2 ? op.input(2) : nullptr;
    note(op, b_.make("conv_last", {turned_value(op.input(0)), op.input(1), bias}, attrs_of(op.attrs<ConvAttrs>())));
  }

  void turn_input_grad(Op& op) {
    const auto& attrs = op.attrs<ConvGradAttrs>();
    ConvLastGradAttrs last{attrs_of(attrs.conv), turned(attrs.shape)};
    note(op, b_.make("conv_last_input_grad", {turned_value(op.input(0)), op.input(1)}, last));
  }

  void turn_weight_grad(Op& op) {
    const auto& attrs = op.attrs<ConvGradAttrs>();
    std::vector<Value*> inputs{turned_value(op.input(0)), turned_value(op.input(1))};
    Op* made = b_.emit("conv_last_weight_grad", inputs, ConvLastGradAttrs{attrs_of(attrs.conv), attrs.shape});
    plain_[op.output()] = made->output(0);
    bias_grads_[op.input(1)] = made->output(1);
    turned_ops_.push_back(&op);
  }

  void turn_pool(Op& op) {
    const MaxPoolLastAttrs attrs{op.attrs<PoolAttrs>().kernel};
    Op* made = b_.emit("max_pool_last", {turned_value(op.input(0))}, attrs);
    turned_[op.output(1)] = made->output(1);
    windows_[op.output(1)] = attrs.window;
    note(op, made->output(0));
  }

  void turn_pool_grad(Op& op) {
    MaxPoolLastGradAttrs attrs{windows_.at(op.input(1)), turned(op.attrs<MaxPoolGradAttrs>().shape)};
    note(op, b_.make("max_pool_last_grad", {turned_value(op.input(0)), turned_.at(op.input(1))}, attrs));
  }

  // x * w becomes w^T * x^T.
  void turn_linear(Op& op) {
    const bool has_transposed_weights = op.attrs<DotAttrs>().transpose_b;
    std::vector<Value*> inputs{op.input(1), turned_value(op.input(0))};
    note(op, b_.make("dot", std::move(inputs), DotAttrs{.transpose_a = !has_transposed_weights}));
  }

  void turn_normalize(Op& op) {
    auto attrs = op.attrs<NormalizeAttrs>();
    attrs.axes = turned_axes(attrs.axes, op.output()->rank());
    std::vector<Value*> inputs;
    for (Value* input : op.inputs()) inputs.push_back(turned_value(input));
    const Op* made = b_.emit(op.name(), std::move(inputs), attrs);
    for (std::size_t i = 0; i < op.num_outputs(); ++i) turned_[op.output(i)] = made->output(i);
    turned_ops_.push_back(&op);
  }

  void turn_softmax(Op& op) {
    std::vector<Value*> inputs;
    for (Value* input : op.inputs()) inputs.push_back(turned_value(input));
    note(op, b_.make(op.name(), std::move(inputs), SoftmaxAttrs{softmax_axis(op) - 1}));
  }

  void turn_reduction(Op& op) {
    auto attrs = op.attrs<ReduceAttrs>();
    const std::int64_t rank = op.input(0)->rank();
    const bool is_bias_grad = op.is("reduce_sum") && !attrs.keep_axes && rank == 4 &&
                              attrs.axes == std::vector<std::int64_t>{0, 2, 3} && bias_grads_.contains(op.input(0));
    if (is_bias_grad) {
      plain_[op.output()] = bias_grads_.at(op.input(0));
      turned_ops_.push_back(&op);
      return;
    }
    attrs.axes = turned_axes(attrs.axes, rank);
    Value* made = b_.make(op.name(), {turned_value(op.input(0))}, attrs);
    if (!keeps_batch(op) && !attrs.keep_axes) plain_[op.output()] = made;
    note(op, made);
  }

  Graph& graph_;
  Builder b_;
  std::vector<Op*> turned_ops_;
  std::unordered_map<const Value*, Value*> turned_;                      // of values as they were
  std::unordered_map<const Value*, Value*> plain_;                       // results that have no batch
  std::unordered_map<const Value*, Value*> bias_grads_;                  // by the gradient they are the sum of
  std::unordered_map<const Value*, std::vector<std::int64_t>> windows_;  // by index of a pooling
  std::size_t num_transposes_ = 0;
};

}  // namespace

void put_batch_last(Graph& graph, const PassContext&) {
  Regions regions(graph);
  std::vector<Op*> ops;
  for (const auto& op : graph.ops()) {
    if (regions.is_turned(*op)) ops.push_back(op.get());
  }
  if (ops.empty()) return;
  Turner turner(graph);
  for (Op* op : ops) turner.turn(*op);
  turner.finish();
  log::debug("batch last: {} ops, {} transposes around them", turner.num_ops(), turner.num_transposes());
}

}  // namespace aspen
