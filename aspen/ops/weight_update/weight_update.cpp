// Updates of weights together with the gradients they follow, so that a gradient need not be kept:
//   dot_sgd, dot_adam:    sgd and adam of w with g = a^T b, as the weight of a linear layer has it
//   rows_sgd, rows_adam:  with g zeros, but row index[i] plus rows[i], as the table of an embedding has it
// The compiler makes them of the two ops (passes/fuse_updates.h), and their results have the bits of the two.
#include "aspen/compiler/ir/op_def.h"
#include "aspen/ops/optimizer/optimizer.h"

namespace aspen {
namespace {

constexpr std::size_t kSettingsPort = 3, kFirstState = 5;

void check_update(const InferContext& c, std::size_t num_states) {
  const TensorType& w = c.in(0);
  c.check(c.num_inputs() == kFirstState + num_states, "takes {} states with these attributes, not {}.", num_states,
          c.num_inputs() - kFirstState);
  const TensorType settings{DType::kF32, {kNumSettings}}, step{DType::kF32, {}};
  c.check(c.in(kSettingsPort) == settings && c.in(kSettingsPort + 1) == step,
          "takes settings {} and a step {}, not {} and {}.", to_string(settings), to_string(step),
          to_string(c.in(kSettingsPort)), to_string(c.in(kSettingsPort + 1)));
  c.check(w.dtype == DType::kF32 && w.rank() >= 1, "takes a weight in f32, not {}.", to_string(w));
  for (std::size_t i = kFirstState; i < c.num_inputs(); ++i) {
    c.check(c.in(i) == w, "state {} is {}, expected {}.", i - kFirstState, to_string(c.in(i)), to_string(w));
  }
}

std::vector<TensorType> updated(const InferContext& c) {
  return std::vector<TensorType>(1 + c.num_inputs() - kFirstState, c.in(0));
}

std::vector<TensorType> infer_dot_update(const InferContext& c, std::size_t num_states) {
  check_update(c, num_states);
  const TensorType &w = c.in(0), &a = c.in(1), &b = c.in(2);
  const bool fits = w.rank() == 2 && a.rank() == 2 && b.rank() == 2 && a.dtype == w.dtype && b.dtype == w.dtype &&
                    a.shape[0] == b.shape[0] && a.shape[1] == w.shape[0] && b.shape[1] == w.shape[1];
  c.check(fits, "the product of {} transposed and {} is no gradient of {}.", to_string(a), to_string(b), to_string(w));
  return updated(c);
}

std::vector<TensorType> infer_rows_update(const InferContext& c, std::size_t num_states) {
  check_update(c, num_states);
  const TensorType &w = c.in(0), &index = c.in(1);
  TensorType rows{w.dtype, index.shape};
  rows.shape.insert(rows.shape.end(), w.shape.begin() + 1, w.shape.end());
  c.check(index.dtype == DType::kI32 && c.in(2) == rows, "adds rows {} at {} to a gradient of {}; expected {}.",
          to_string(c.in(2)), to_string(index), to_string(w), to_string(rows));
  return updated(c);
}

std::size_t num_states(const SgdAttrs& attrs) { return attrs.momentum ? 1 : 0; }
std::size_t num_states(const AdamAttrs&) { return 2; }

// a, b: the operands of the gradient.
template <class A>
OpDef& define_update(OpRegistry& ops, const char* name, const char* summary, const std::vector<A>& variants,
                     const Port& a, const Port& b, const std::vector<std::vector<TensorType>>& shapes,
                     std::vector<TensorType> (*infer)(const InferContext&, std::size_t)) {
  OpDef& def = ops.define<A>(name)
                   .summary(summary)
                   .input("w", "parameter, f32")
                   .input(a.name, a.doc)
                   .input(b.name, b.doc)
                   .input("settings", "f32, in the order of enum Setting")
                   .input("step", "f32 scalar, updates done before this one")
                   .inputs("states", "type of w; which ones the attributes decide")
                   .output("w", "updated parameter")
                   .outputs("states", "updated states")
                   .infer([infer](const InferContext& c) { return infer(c, num_states(c.attrs<A>())); })
                   .inplace(0, 0);
  for (std::size_t i = 0; i < 2; ++i) def.inplace(1 + i, kFirstState + i);
  for (const A& attrs : variants) {
    for (const std::vector<TensorType>& operands : shapes) {
      Example e{
          .inputs = operands, .attrs = Attrs::of(attrs), .low = 0.1, .high = 0.3, .int_high = operands[0].shape[0]};
      e.inputs.push_back({DType::kF32, {kNumSettings}});
      e.inputs.push_back({DType::kF32, {}});
      e.inputs.insert(e.inputs.end(), num_states(attrs), operands[0]);
      def.example(e);
    }
  }
  return def;
}

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

double dot_products(const Op& op) {
  return static_cast<double>(op.output()->type().numel()) * static_cast<double>(op.input(1)->shape()[0]);
}

void define_dot_updates(OpRegistry& ops) {
  const Port a{"a", "(K, M), f32"}, b{"b", "(K, N), f32; the gradient is a^T b"};
  const std::vector<std::vector<TensorType>> shapes{{f32({5, 7}), f32({3, 5}), f32({3, 7})},
                                                    {f32({70, 33}), f32({40, 70}), f32({40, 33})}};
  define_update<SgdAttrs>(ops, "dot_sgd", "sgd of a weight (M, N) with the gradient of a linear layer.",
                          {{false, false}, {true, false}, {true, true}}, a, b, shapes, infer_dot_update)
      .products(dot_products);
  define_update<AdamAttrs>(ops, "dot_adam", "adam of a weight (M, N) with the gradient of a linear layer.",
                           {{false, true}, {true, true}, {true, false}}, a, b, shapes, infer_dot_update)
      .products(dot_products);
}

void define_rows_updates(OpRegistry& ops) {
  const Port index{"index", "i32, any shape"}, rows{"rows", "f32, those that are added: the shape take(w, index) has"};
  const TensorType places{DType::kI32, {6}}, matrix{DType::kI32, {2, 9}};
  const std::vector<std::vector<TensorType>> shapes{{f32({4, 5}), places, f32({6, 5})},
                                                    {f32({900, 2, 8}), matrix, f32({2, 9, 2, 8})}};
  define_update<SgdAttrs>(ops, "rows_sgd", "sgd of a table with the gradient of an embedding.",
                          {{false, false}, {true, false}, {true, true}}, index, rows, shapes, infer_rows_update);
  define_update<AdamAttrs>(ops, "rows_adam", "adam of a table with the gradient of an embedding.",
                           {{false, true}, {true, true}, {true, false}}, index, rows, shapes, infer_rows_update);
}

}  // namespace

void define_weight_update(OpRegistry& ops) {
  define_dot_updates(ops);
  define_rows_updates(ops);
}

}  // namespace aspen
