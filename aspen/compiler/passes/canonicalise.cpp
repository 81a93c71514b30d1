#include "aspen/compiler/passes/canonicalise.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "aspen/backends/api/strided_rows.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/cast/cast.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/source/source.h"

namespace aspen {
namespace {

// A rule gives the value that can stand for the op's result, or nullptr when it has nothing to say. It may also
// change the op's inputs or attributes in a way that keeps the result.
using Rule = Value* (*)(Builder& b, Op& op);

// The op that makes a value, if it is of this kind.
const Op* made_by(const Value* value, std::string_view kind) {
  const Op* op = value->producer();
  return op != nullptr && op->is(kind) ? op : nullptr;
}

// Whether the value is known to be `number` everywhere.
bool is_full_of(const Value* value, double number) {
  const Op* op = made_by(value, "full");
  return op != nullptr && op->attrs<FullAttrs>().value == number;
}

Value* full_of_shape(Builder& b, const Op& full, const Shape& shape) {
  return build::full(b, full.attrs<FullAttrs>().dtype, shape, full.attrs<FullAttrs>().value);
}

bool same_type(const Value* a, const Value* b) { return a->type() == b->type(); }

// -- moves of elements --------------------------------------------------------------------------------------

Value* simplify_reshape(Builder& b, Op& op) {
  Value* x = op.input(0);
  const Shape& shape = op.output()->shape();
  if (x->shape() == shape) return x;
  if (const Op* inner = made_by(x, "reshape")) return build::reshape(b, inner->input(0), shape);
  if (const Op* full = made_by(x, "full")) return full_of_shape(b, *full, shape);
  if (const Op* constant = made_by(x, "constant")) {
    const auto& attrs = constant->attrs<ConstantAttrs>();
    return b.make("constant", {}, ConstantAttrs{attrs.dtype, shape, attrs.data});
  }
  return nullptr;
}

// Whether only axes of size 1 change their place among the others: the bytes stay where they are.
bool keeps_order(const Shape& shape, const std::vector<std::int64_t>& permutation) {
  std::int64_t last = -1;
  for (std::int64_t axis : permutation) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// The value of which x is the last two axes exchanged, or nullptr. Where one of them is 1 that is a reshape.
Value* before_exchange(const Value* x) {
  const auto exchanged = [](std::vector<std::int64_t> list) {
    std::swap(list[list.size() - 1], list[list.size() - 2]);
    return list;
  };
  if (const Op* inner = made_by(x, "transpose")) {
    const auto& permutation = inner->attrs<TransposeAttrs>().permutation;
    std::vector<std::int64_t> in_order(permutation.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    return permutation == exchanged(in_order) ? inner->input(0) : nullptr;
  }
  if (const Op* inner = made_by(x, "reshape")) {
    const Shape& shape = x->shape();
    const bool has_one = shape[shape.size() - 1] == 1 || shape[shape.size() - 2] == 1;
    return has_one && inner->input(0)->shape() == exchanged(shape) ? inner->input(0) : nullptr;
  }
  return nullptr;
}

// A product of which only the transposed is wanted: (a b)^T = b^T a^T. Not where both operands would have to be turned.
Value* transposed_dot(Builder& b, const Op& op) {
  const Value* x = op.input(0);
  const Op* dot = made_by(x, "dot");
  if (dot == nullptr || before_exchange(op.output()) != x || !run_together(*dot, op)) return nullptr;
  if (x->users().size() != 1 || x->is_output() || x->is_gradient()) return nullptr;
  const DotAttrs& attrs = dot->attrs<DotAttrs>();
  const bool turns_both = !attrs.transpose_a && !attrs.transpose_b;
  if (turns_both || dot->input(0)->rank() != dot->input(1)->rank()) return nullptr;
  return b.make("dot", {dot->input(1), dot->input(0)}, DotAttrs{!attrs.transpose_b, !attrs.transpose_a});
}

Value* simplify_transpose(Builder& b, Op& op) {
  Value* x = op.input(0);
  const auto& permutation = op.attrs<TransposeAttrs>().permutation;
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  if (keeps_order(x->shape(), permutation)) return build::reshape(b, x, op.output()->shape());
  if (const Op* inner = made_by(x, "transpose")) {
    std::vector<std::int64_t> both;
    for (std::int64_t axis : permutation) both.push_back(inner->attrs<TransposeAttrs>().permutation[axis]);
    return build::transpose(b, inner->input(0), std::move(both));
  }
  if (const Op* full = made_by(x, "full")) return full_of_shape(b, *full, op.output()->shape());
  return transposed_dot(b, op);
}

Value* simplify_broadcast(Builder& b, Op& op) {
  Value* x = op.input(0);
  const Shape& shape = op.output()->shape();
  if (x->shape() == shape) return x;
  if (numel(x->shape()) == numel(shape)) return build::reshape(b, x, shape);
  if (const Op* inner = made_by(x, "broadcast")) return build::broadcast(b, inner->input(0), shape);
  if (const Op* full = made_by(x, "full")) return full_of_shape(b, *full, shape);
  return nullptr;
}

Value* simplify_slice(Builder& b, Op& op) {
  Value* x = op.input(0);
  if (same_type(x, op.output()) && !std::any_of(x->shape().begin(), x->shape().end(), [](auto n) { return n == 0; })) {
    return x;  // a slice as large as its input takes all of it, in order
  }
  if (const Op* full = made_by(x, "full")) return full_of_shape(b, *full, op.output()->shape());
  return nullptr;
}

Value* simplify_pad(Builder&, Op& op) {
  const auto& attrs = op.attrs<PadAttrs>();
  auto all_zero = [](const std::vector<std::int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](auto n) { return n == 0; });
  };
  return all_zero(attrs.low) && all_zero(attrs.high) && all_zero(attrs.interior) ? op.input(0) : nullptr;
}

Value* simplify_concat(Builder&, Op& op) { return op.num_inputs() == 1 ? op.input(0) : nullptr; }

Value* simplify_reverse(Builder&, Op& op) {
  const auto& axes = op.attrs<ReverseAttrs>().axes;
  Value* x = op.input(0);
  if (std::all_of(axes.begin(), axes.end(),
                  [&](auto axis) { return x->shape()[axis < 0 ? axis + x->rank() : axis] == 1; })) {
    return x;
  }
  const Op* inner = made_by(x, "reverse");
  return inner != nullptr && inner->attrs<ReverseAttrs>().axes == axes ? inner->input(0) : nullptr;
}

// Reducing axes of size 1 (or none) leaves the elements as they are.
Value* simplify_reduce(Builder& b, Op& op) {
  Value* x = op.input(0);
  if (x->dtype() != op.output()->dtype() || numel(x->shape()) != numel(op.output()->shape())) return nullptr;
  if (numel(x->shape()) == 0) return nullptr;
  return build::reshape(b, x, op.output()->shape());
}

// The largest number from `least` to `most` that divides `size`; 0: there is none.
std::int64_t divisor_of(std::int64_t size, std::int64_t least, std::int64_t most) {
  for (std::int64_t divisor = most; divisor >= least; --divisor) {
    if (size % divisor == 0) return divisor;
  }
  return 0;
}

// A sum of products of elements along the last axes is that of a row and a column: the products need not be kept. Few
// sums are those of their parts. Left alone are sums too short to gain by it, and half, whose products are rounded.
Value* sum_of_products(Builder& b, const Op& op) {
  constexpr std::int64_t kLongSum = 64, kLongPart = 4096, kManySums = 64;
  const Op* product = made_by(op.input(0), "mul");
  const TensorType& type = op.input(0)->type();
  if (product == nullptr || type.dtype != DType::kF32 || type.numel() == 0) return nullptr;
  if (op.input(0)->users().size() != 1 || op.input(0)->is_output()) return nullptr;
  for (const Value* factor : product->inputs()) {
    if (factor->shape() != type.shape) return nullptr;
  }
  const auto& axes = op.attrs<ReduceAttrs>().axes;
  const bool are_last = axes.empty() || axes.front() + static_cast<std::int64_t>(axes.size()) == type.rank();
  const std::int64_t sums = numel(op.output()->shape()), size = type.numel() / sums;
  if (!are_last || size < kLongSum) return nullptr;
  const std::int64_t most = std::min({size, kLongPart, type.numel() / kManySums});
  const std::int64_t part = sums < kManySums ? divisor_of(size, kLongSum, most) : size;
  if (part == 0) return nullptr;
  Value* rows = build::reshape(b, product->input(0), {type.numel() / part, 1, part});
  Value* columns = build::reshape(b, product->input(1), {type.numel() / part, part, 1});
  Value* parts = build::reshape(b, build::dot(b, rows, columns, false, false), {sums, size / part});
  return build::reshape(b, part == size ? parts : build::reduce_sum(b, parts, {1}, false), op.output()->shape());
}

Value* simplify_sum(Builder& b, Op& op) {
  Value* simpler = simplify_reduce(b, op);
  return simpler != nullptr ? simpler : sum_of_products(b, op);
}

// -- elements -----------------------------------------------------------------------------------------------

// Whether every value of `from` is a value of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  if (is_floating(from)) return is_floating(to) && size_of(from) < size_of(to);
  // Integers: the mantissa, or the larger range, has to hold them.
  std::size_t bits = 8 * size_of(from);
  if (to == DType::kF64) return true;
  if (to == DType::kF32) return bits <= 16;
  if (is_narrow_float(to)) return bits <= 8;
  if (from == DType::kU8) return to == DType::kI16 || to == DType::kI32;
  return to != DType::kU8 && size_of(from) < size_of(to);
}

Value* simplify_cast(Builder& b, Op& op) {
  Value* x = op.input(0);
  if (same_type(x, op.output())) return x;
  const Op* inner = made_by(x, "cast");
  if (inner == nullptr || !is_lossless(inner->input(0)->dtype(), x->dtype())) return nullptr;
  return build::cast(b, inner->input(0), op.output()->dtype());
}

Value* simplify_neg(Builder&, Op& op) {
  const Op* inner = made_by(op.input(0), "neg");
  return inner != nullptr ? inner->input(0) : nullptr;
}

// x op number == x, on the right or on either side.
Value* drop_neutral(const Op& op, double neutral, bool either_side) {
  if (is_full_of(op.input(1), neutral) && same_type(op.input(0), op.output())) return op.input(0);
  if (either_side && is_full_of(op.input(0), neutral) && same_type(op.input(1), op.output())) return op.input(1);
  return nullptr;
}

Value* simplify_add(Builder&, Op& op) { return drop_neutral(op, 0, true); }
Value* simplify_sub(Builder&, Op& op) { return drop_neutral(op, 0, false); }
Value* simplify_mul(Builder&, Op& op) { return drop_neutral(op, 1, true); }
Value* simplify_div(Builder&, Op& op) { return drop_neutral(op, 1, false); }

Value* simplify_select(Builder&, Op& op) {
  return op.input(1) == op.input(2) && same_type(op.input(1), op.output()) ? op.input(1) : nullptr;
}

Value* simplify_dropout(Builder&, Op& op) { return op.attrs<DropoutAttrs>().p == 0 ? op.input(0) : nullptr; }

// A column by a row is a product of elements; both operands as dot would have them without its flags.
Value* outer_product(Builder& b, const Op& op) {
  Shape column = op.output()->shape(), row = column;
  column.back() = 1;
  row[row.size() - 2] = 1;
  Value* left = build::reshape(b, op.input(0), column);
  return build::mul(b, left, build::reshape(b, op.input(1), row));
}

// A transpose of the last two axes becomes a flag of dot.
Value* simplify_dot(Builder& b, Op& op) {
  DotAttrs attrs = op.attrs<DotAttrs>();
  bool is_changed = false;
  for (std::size_t i : {0, 1}) {
    Value* inner = before_exchange(op.input(i));
    if (inner == nullptr) continue;
    bool& flag = i == 0 ? attrs.transpose_a : attrs.transpose_b;
    flag = !flag;
    op.set_input(i, inner);
    is_changed = true;
  }
  if (is_changed) op.set_attrs(Attrs::of(attrs));
  const Shape& shape = op.input(0)->shape();
  const bool is_outer = shape[shape.size() - (attrs.transpose_a ? 2 : 1)] == 1;
  return is_outer && op.output()->type().numel() > 0 ? outer_product(b, op) : nullptr;
}

// One number for many weights need not be written out for them, where they are enough to follow each other.
Value* simplify_sgd(Builder& b, Op& op) {
  constexpr std::int64_t kLongRow = 64;
  const Op *broadcast = made_by(op.input(1), "broadcast"), *full = made_by(op.input(1), "full");
  if (full != nullptr && op.input(1)->rank() > 0) op.set_input(1, full_of_shape(b, *full, {}));
  if (broadcast == nullptr) return nullptr;
  const auto rows = broadcast_rows<1>(op.input(0)->shape(), {&broadcast->input(0)->shape()});
  if (rows.row_size() >= kLongRow) op.set_input(1, broadcast->input(0));
  return nullptr;
}

const std::unordered_map<std::string_view, Rule> kRules{
    {"reshape", simplify_reshape},
    {"transpose", simplify_transpose},
    {"broadcast", simplify_broadcast},
    {"slice", simplify_slice},
    {"pad", simplify_pad},
    {"concat", simplify_concat},
    {"reverse", simplify_reverse},
    {"reduce_sum", simplify_sum},
    {"reduce_prod", simplify_reduce},
    {"reduce_max", simplify_reduce},
    {"reduce_min", simplify_reduce},
    {"cast", simplify_cast},
    {"neg", simplify_neg},
    {"add", simplify_add},
    {"sub", simplify_sub},
    {"mul", simplify_mul},
    {"div", simplify_div},
    {"select", simplify_select},
    {"dropout", simplify_dropout},
    {"dot", simplify_dot},
    {"sgd", simplify_sgd},
};

// Feeds an op that broadcasts its operands what was broadcast for it, or one number instead of many, where the result
// keeps its shape.
void skip_broadcasts(Builder& b, Op& op) {
  for (std::size_t i = 0; i < op.num_inputs(); ++i) {
    Value* input = op.input(i);
    bool is_large_full = made_by(input, "full") != nullptr && input->rank() > 0;
    if (!is_large_full && made_by(input, "broadcast") == nullptr) continue;
    Shape smaller = is_large_full ? Shape{} : input->producer()->input(0)->shape();
    for (std::size_t k = 0; k < op.num_inputs(); ++k) {
      if (k != i) smaller = broadcast_shapes(smaller, op.input(k)->shape(), "canonicalise");
    }
    if (smaller != op.output()->shape()) continue;
    op.set_input(i, is_large_full ? full_of_shape(b, *input->producer(), {}) : input->producer()->input(0));
  }
}

// What is one number everywhere is computed once: a pointwise op on nothing but fulls.
Value* compute_once(Builder& b, const Op& op) {
  const bool is_simple = op.def().is_pointwise() && op.is_function() && op.num_outputs() == 1;
  if (!is_simple || op.num_inputs() == 0 || op.output()->type().numel() < 2) return nullptr;
  std::vector<Value*> numbers;
  for (const Value* input : op.inputs()) {
    const Op* full = input == nullptr ? nullptr : made_by(input, "full");
    if (full == nullptr) return nullptr;
    numbers.push_back(full_of_shape(b, *full, {}));
  }
  return build::broadcast(b, b.emit(op.name(), std::move(numbers), op.attrs())->output(), op.output()->shape());
}

}  // namespace

void canonicalise(Graph& graph, const PassContext&) {
  Builder b(graph);
  for (auto place = graph.ops().begin(); place != graph.ops().end();) {
    Op* op = place->get();
    b.like(*op);
    b.before = op;
    if (op->def().does_broadcast()) skip_broadcasts(b, *op);
    auto rule = kRules.find(op->name());
    std::size_t size_before = graph.ops().size();
    Value* simpler = rule == kRules.end() ? nullptr : rule->second(b, *op);
    if (simpler == nullptr) simpler = compute_once(b, *op);
    if (simpler == nullptr || simpler == op->output()) {
      ++place;
      continue;
    }
    // An op the rule made sits right before this one and is looked at next: it may be simplified further.
    bool made_new = graph.ops().size() > size_before;
    auto next = made_new ? std::prev(place) : std::next(place);
    replace_op(graph, op, simpler);
    place = next;
  }
}

}  // namespace aspen
