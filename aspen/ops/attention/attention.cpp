// attention: for every head h of every sample b, with scores (S, T) that are never in memory as a whole,
//   out = softmax(scale * q k^T + mask) v
// A mask of bool takes the place of scores instead of being added to them. The axes of heads and of a sample's rows lie
// as linear layers leave them; B or H of 1 makes matrices of other layouts fit. Has no gradient: fuse_attention makes
// it where none is wanted any more.
#include "aspen/ops/attention/attention.h"

#include "aspen/compiler/ir/graph.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

std::vector<TensorType> infer_attention(const InferContext& c) {
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
  if (c.has(3)) {
    const TensorType& mask = c.in(3);
    const Shape scores{q.shape[0], q.shape[2], q.shape[1], k.shape[1]};
    bool fits = mask.rank() == 4 && mask.shape[3] == scores[3] && (mask.shape[2] == 1 || mask.shape[2] == scores[2]);
    for (std::size_t i : {0, 1}) fits = fits && mask.shape[i] > 0 && scores[i] % mask.shape[i] == 0;
    c.check(fits && (mask.dtype == q.dtype || mask.dtype == DType::kBool),
            "cannot apply the mask {} to scores {} of type {}.", to_string(mask), to_string(scores), name_of(q.dtype));
  }
  return {{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}};
}

// B * H * S * T scores, each of D products and part of E.
double attention_products(const Op& op) {
  const Shape &q = op.input(0)->shape(), &v = op.input(2)->shape();
  return static_cast<double>(q[0] * q[1] * q[2] * v[1]) * static_cast<double>(q[3] + v[3]);
}

void add_examples(OpDef& op) {
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
    example.inputs.insert(example.inputs.end(), e.mask.begin(), e.mask.end());
    op.example(std::move(example));
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
                  .infer(infer_attention)
                  .products(attention_products);
  add_examples(op);
}

}  // namespace aspen
