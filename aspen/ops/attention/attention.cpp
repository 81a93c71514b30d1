// attention: for every head h of every sample b, with scores (S, T) that are never in memory as a whole,
//   out = softmax(scale * q k^T + mask) v
// A mask of bool takes the place of scores instead of being added to them. The axes of heads and of a sample's rows lie
// as linear layers leave them; B or H of 1 makes matrices of other layouts fit. The gradient makes the weights again
// from the largest score of each row and the sum of its exponentials. One number in the place of both, their logarithm,
// would lose the sum beside scores of -1e9, as masks make them. With p the weights, g the gradient of out and
// dp = g v^T:
//   dv = p^T g,   ds = p * (dp - sum(p * dp, of a row)), 0 where a mask of bool is true,
//   dq = scale * ds k,   dk = scale * ds^T q
// The sum is that of g * out, too, but made of the same numbers as dp it cancels them where one key has all the weight.
// There is none by the mask: fuse_attention leaves masks that want one as they are.
#include "aspen/ops/attention/attention.h"

#include "aspen/compiler/ir/builder.h"

namespace aspen {
namespace {

Shape scores_of(const InferContext& c) {
  const Shape& q = c.in(0).shape;
  return {q[0], q[2], q[1], c.in(1).shape[1]};
}

TensorType result_of(const InferContext& c) {
  const Shape& q = c.in(0).shape;
  return {c.in(0).dtype, {q[0], q[1], q[2], c.in(2).shape[3]}};
}

// A number for each row of scores: at least float32.
TensorType statistics_of(const InferContext& c) {
  const Shape scores = scores_of(c);
  const DType dtype = c.in(0).dtype;
  return {is_narrow_float(dtype) ? DType::kF32 : dtype, {scores[0], scores[1], scores[2]}};
}

void check_operands(const InferContext& c) {
  const TensorType &q = c.in(0), &k = c.in(1), &v = c.in(2);
  for (std::size_t i : {0, 1, 2}) {
    c.check(is_floating(q.dtype) && c.in(i).dtype == q.dtype && c.in(i).rank() == 4,
            "takes q, k and v of one floating point type and of rank 4, not {}, {} and {}.", to_string(q), to_string(k),
            to_string(v));
  }
  const Shape keys{q.shape[0], k.shape[1], q.shape[2], q.shape[3]};
  c.check(k.shape == keys, "q {} and k {} differ in batch, heads or depth.", to_string(q), to_string(k));
  const Shape values{q.shape[0], k.shape[1], q.shape[2], v.shape[3]};
  c.check(v.shape == values, "k {} and v {} differ in batch, rows or heads.", to_string(k), to_string(v));
}

void check_mask(const InferContext& c, std::size_t input) {
  if (!c.has(input)) return;
  const TensorType &mask = c.in(input), &q = c.in(0);
  const Shape scores = scores_of(c);
  bool fits = mask.rank() == 4 && mask.shape[3] == scores[3] && (mask.shape[2] == 1 || mask.shape[2] == scores[2]);
  for (std::size_t i : {0, 1}) fits = fits && mask.shape[i] > 0 && scores[i] % mask.shape[i] == 0;
  c.check(fits && (mask.dtype == q.dtype || mask.dtype == DType::kBool),
          "cannot apply the mask {} to scores {} of type {}.", to_string(mask), to_string(scores), name_of(q.dtype));
}

std::vector<TensorType> infer_attention(const InferContext& c) {
  check_operands(c);
  check_mask(c, 3);
  return {result_of(c), statistics_of(c), statistics_of(c)};
}

std::vector<TensorType> infer_attention_grad(const InferContext& c) {
  check_operands(c);
  const TensorType result = result_of(c), statistics = statistics_of(c);
  for (std::size_t i : {3, 4}) {
    c.check(c.in(i) == statistics, "takes statistics {}, not {}.", to_string(statistics), to_string(c.in(i)));
  }
  c.check(c.in(5) == result, "takes a gradient {}, not {}.", to_string(result), to_string(c.in(5)));
  check_mask(c, 6);
  return {c.in(0), c.in(1), c.in(2)};
}

void attention_gradient(GradientContext& c) {
  c.no_gradient(3);
  const Op* op = c.b.emit("attention_grad", {c.in(0), c.in(1), c.in(2), c.out(1), c.out(2), c.grad(0), c.in(3)},
                          c.attrs<AttentionAttrs>());
  for (std::size_t i : {0, 1, 2}) c.set(i, op->output(i));
}

// B * H * S * T scores, each of D products and part of E.
double attention_products(const Op& op) {
  const Shape &q = op.input(0)->shape(), &v = op.input(2)->shape();
  return static_cast<double>(q[0] * q[1] * q[2] * v[1]) * static_cast<double>(q[3] + v[3]);
}

double attention_grad_products(const Op& op) {
  const Shape &q = op.input(0)->shape(), &v = op.input(2)->shape();
  return static_cast<double>(q[0] * q[1] * q[2] * v[1]) * static_cast<double>(3 * q[3] + 2 * v[3]);
}

void add_examples(OpDef& op, OpDef& gradient) {
  struct Case {
    Shape q, k, v;
    std::vector<TensorType> mask = {};
    AttentionAttrs attrs = {.scale = 0.5};
  };
  for (const Case& e : std::vector<Case>{
           {{2, 5, 3, 4}, {2, 7, 3, 4}, {2, 7, 3, 6}},
           {{2, 5, 3, 4}, {2, 7, 3, 4}, {2, 7, 3, 6}, {{DType::kF32, {2, 1, 1, 7}}}},
           {{2, 5, 3, 4}, {2, 7, 3, 4}, {2, 7, 3, 4}, {{DType::kF32, {1, 3, 5, 7}}}},
           {{1, 37, 2, 17}, {1, 70, 2, 17}, {1, 70, 2, 33}},
           {{3, 19, 1, 8}, {3, 19, 1, 8}, {3, 19, 1, 8}, {{DType::kBool, {3, 1, 19, 19}}}, {.scale = 2, .fill = -3}},
           {{2, 1, 3, 5}, {2, 21, 3, 5}, {2, 21, 3, 5}, {{DType::kBool, {1, 1, 1, 21}}}},
           {{4, 3, 6, 5}, {4, 9, 6, 5}, {4, 9, 6, 5}, {{DType::kF32, {2, 3, 1, 9}}}},
           {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}}) {
    Example example{.inputs = {{DType::kF32, e.q}, {DType::kF32, e.k}, {DType::kF32, e.v}},
                    .attrs = Attrs::of(e.attrs)};
    Example of_gradient = example;
    example.inputs.insert(example.inputs.end(), e.mask.begin(), e.mask.end());
    op.example(std::move(example));
    const TensorType y{DType::kF32, {e.q[0], e.q[1], e.q[2], e.v[3]}};
    const TensorType statistics{DType::kF32, {e.q[0], e.q[2], e.q[1]}};
    of_gradient.inputs.insert(of_gradient.inputs.end(), {statistics, statistics, y});
    of_gradient.inputs.insert(of_gradient.inputs.end(), e.mask.begin(), e.mask.end());
    of_gradient.low = 0.2;  // of sums, which are positive
    gradient.example(std::move(of_gradient));
  }
}

}  // namespace

void define_attention(OpRegistry& ops) {
  OpDef& op = ops.define<AttentionAttrs>("attention")
                  .summary(
                      "softmax(scale * q k^T + mask) v for each head, without the scores in memory: made by "
                      "fuse_attention.")
                  .input("q", "floating point, (B, S, H, D)")
                  .input("k", "type of q, (B, T, H, D)")
                  .input("v", "type of q, (B, T, H, E)")
                  .optional_input("mask",
                                  "(a divisor of B, one of H, S or 1, T); type of q: is added to the scores; "
                                  "bool: where true, scores are `fill`")
                  .output("y", "type of q, (B, S, H, E)")
                  .output("top", "the largest of each row of scores (B, H, S); f32 for f16")
                  .output("sum", "sum of exp(score - top) of each row of scores (B, H, S); f32 for f16")
                  .infer(infer_attention)
                  .gradient(attention_gradient)
                  .products(attention_products);
  OpDef& gradient = ops.define<AttentionAttrs>("attention_grad")
                        .summary("Gradient of attention by q, k and v.")
                        .input("q", "as in attention")
                        .input("k", "as in attention")
                        .input("v", "as in attention")
                        .input("top", "output of attention")
                        .input("sum", "output of attention")
                        .input("g", "gradient of y")
                        .optional_input("mask", "as in attention")
                        .output("dq", "shape and type of q")
                        .output("dk", "shape and type of k")
                        .output("dv", "shape and type of v")
                        .infer(infer_attention_grad)
                        .products(attention_grad_products);
  add_examples(op, gradient);
}

}  // namespace aspen
