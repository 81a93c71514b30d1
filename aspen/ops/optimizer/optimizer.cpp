// Updates of parameters as ops, with the rules of torch.optim; the compiler puts one per parameter (optimizer.h says
// how they are called). They come after autodiff and have no gradients.
#include "aspen/ops/optimizer/optimizer.h"

#include "aspen/base/replica_grouping.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {
namespace {

constexpr std::size_t kFirstState = 4;

bool is_real(DType type) { return type == DType::kF32 || is_narrow_float(type); }

// Of the gradient: that of the parameter, or one that broadcasts to it.
enum class GradientShape { kOfParameter, kBroadcasts };

// num_more: inputs that follow the states.
std::vector<TensorType> infer_update(const InferContext& c, std::size_t num_states, std::size_t num_more = 0,
                                     GradientShape gradient = GradientShape::kOfParameter) {
  const TensorType &w = c.in(0), &settings = c.in(2), &step = c.in(3);
  c.check(c.num_inputs() == kFirstState + num_states + num_more, "takes {} states with these attributes, not {}.",
          num_states, c.num_inputs() - kFirstState - num_more);
  c.check(settings == TensorType{DType::kF32, {kNumSettings}} && step == TensorType{DType::kF32, {}},
          "takes settings f32[{}] and a step f32[], not {} and {}.", static_cast<std::size_t>(kNumSettings),
          to_string(settings), to_string(step));
  std::vector<TensorType> result{w};
  for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Shape& shape = c.in(i).shape;
    const bool fits = shape == w.shape ||
                      (gradient == GradientShape::kBroadcasts && broadcast_shapes(w.shape, shape, c.who()) == w.shape);
    c.check(is_real(c.in(i).dtype) && fits, "takes f32, f16 or bf16 tensors of one shape, not {} for {}.",
            to_string(c.in(i)), to_string(w));
  }
  for (std::size_t i = kFirstState; i < kFirstState + num_states; ++i) {
    c.check(is_real(c.in(i).dtype) && c.in(i).shape == w.shape,
            "state {} is {}, expected f32, f16 or bf16 of the shape of {}.", i - kFirstState, to_string(c.in(i)),
            to_string(w));
    result.push_back(c.in(i));
  }
  return result;
}

template <class A>
OpDef& define_update(OpRegistry& ops, const char* name, const char* summary, std::size_t (*num_states)(const A&),
                     std::vector<A> variants) {
  OpDef& def = ops.define<A>(name)
                   .summary(summary)
                   .input("w", "parameter, f32, f16 or bf16")
                   .input("g", "gradient, f32, f16 or bf16, divided by the loss scaling")
                   .input("settings", "f32, in the order of enum Setting")
                   .input("step", "f32 scalar, updates done before this one")
                   .inputs("states", "f32, f16 or bf16, shape of w; which ones the attributes decide")
                   .output("w", "updated parameter")
                   .outputs("states", "updated states")
                   .infer([num_states](const InferContext& c) { return infer_update(c, num_states(c.attrs<A>())); })
                   .inplace(0, 0);
  for (std::size_t i = 0; i < 3; ++i) def.inplace(1 + i, kFirstState + i);
  for (const A& attrs : variants) {
    // Settings and step are drawn from where they make sense. The range is narrow for the sake of the centred
    // variance: a mean of squares (at least 0.1) must not fall below the square of the mean (at most 0.09).
    Example e{
        .inputs = {{DType::kF32, {3, 5}}, {DType::kF32, {3, 5}}, {DType::kF32, {kNumSettings}}, {DType::kF32, {}}},
        .attrs = Attrs::of(attrs),
        .low = 0.1,
        .high = 0.3};
    e.inputs.insert(e.inputs.end(), num_states(attrs), TensorType{DType::kF32, {3, 5}});
    def.example(e);
    for (DType narrow : {DType::kF16, DType::kBF16}) {
      e.inputs[0].dtype = e.inputs[1].dtype = narrow;
      def.example(e);
    }
  }
  return def;
}

std::size_t rmsprop_states(const RmspropAttrs& a) { return 1 + (a.centered ? 1 : 0) + (a.momentum ? 1 : 0); }

const TensorType kNormsType{DType::kF64, {2}};

std::vector<TensorType> infer_lamb_norms(const InferContext& c) {
  infer_update(c, 2);
  const auto& attrs = c.attrs<LambNormsAttrs>();
  c.check(attrs.replicas >= 1 && attrs.numel >= 0, "cannot cut {} elements for {} replicas.", attrs.numel,
          attrs.replicas);
  const std::int64_t shard = shard_elements(attrs.numel, static_cast<std::size_t>(attrs.replicas));
  c.check(c.in(0).numel() == shard, "a shard of {} elements has {}, and the parameter is {}.", attrs.numel, shard,
          to_string(c.in(0)));
  return {kNormsType};
}

std::vector<TensorType> infer_lamb_step(const InferContext& c) {
  std::vector<TensorType> result = infer_update(c, 2, 1);
  c.check(c.in(kFirstState + 2) == kNormsType, "takes norms {}, not {}.", to_string(kNormsType),
          to_string(c.in(kFirstState + 2)));
  return result;
}

void define_sharded_lamb(OpRegistry& ops) {
  std::vector<TensorType> operands{{DType::kF32, {15}}, {DType::kF32, {15}}, {DType::kF32, {kNumSettings}},
                                   {DType::kF32, {}},   {DType::kF32, {15}}, {DType::kF32, {15}}};
  auto with_operands = [](OpDef& def) -> OpDef& {
    return def.input("w", "shard of a parameter, f32 or f16")
        .input("g", "shard of its gradient, f32 or f16, divided by the loss scaling")
        .input("settings", "f32, in the order of enum Setting")
        .input("step", "f32 scalar, updates done before this one")
        .input("m", "shard of the mean of gradients, f32 or f16")
        .input("v", "shard of the mean of their squares, f32 or f16");
  };
  // Both are of another value on each replica: never folded.
  with_operands(ops.define<LambNormsAttrs>("lamb_norms")
                    .summary("The replica's part of the squared norms of a parameter and of its update by LAMB."))
      .output("norms", "f64, of the parameter and of the update")
      .infer(infer_lamb_norms)
      .random()
      .example({.inputs = operands, .attrs = Attrs::of(LambNormsAttrs{.numel = 15}), .low = 0.1, .high = 0.3});
  operands.push_back(kNormsType);
  with_operands(
      ops.define<LambAttrs>("lamb_step").summary("LAMB for a shard of a parameter, with the norms of the whole."))
      .input("norms", "f64, squared, of the parameter and of the update")
      .output("w", "updated shard of the parameter")
      .output("m", "updated shard of the mean of gradients")
      .output("v", "updated shard of the mean of their squares")
      .infer(infer_lamb_step)
      .random()
      .inplace(0, 0)
      .inplace(1, kFirstState)
      .inplace(2, kFirstState + 1)
      .example({.inputs = operands, .attrs = Attrs::of(LambAttrs{}), .low = 0.1, .high = 0.3});
}

void define_clipping(OpRegistry& ops) {
  ops.define("square_sum")
      .summary("Sum of the squares of all elements, for norms over many tensors.")
      .input("x", "f32, f16 or bf16")
      .output("y", "f32 scalar")
      .infer([](const InferContext& c) -> std::vector<TensorType> {
        c.check(is_real(c.in(0).dtype), "takes f32, f16 or bf16, not {}.", to_string(c.in(0)));
        return {{DType::kF32, {}}};
      })
      .example({.inputs = {{DType::kF32, {7, 9}}}})
      .example({.inputs = {{DType::kF16, {33}}}})
      .example({.inputs = {{DType::kBF16, {33}}}});
  ops.define<ClipScaleAttrs>("clip_scale")
      .summary("min(1, max_norm / (norm + 1e-6)): what brings gradients of this norm below max_norm.")
      .input("norm_squared", "f32 scalar")
      .output("scale", "f32 scalar")
      .infer([](const InferContext& c) -> std::vector<TensorType> {
        TensorType expected{DType::kF32, {}};
        c.check(c.in(0) == expected, "takes {}, not {}.", to_string(expected), to_string(c.in(0)));
        return {expected};
      })
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(ClipScaleAttrs{0.5}), .low = 1, .high = 4})
      .example({.inputs = {{DType::kF32, {}}}, .attrs = Attrs::of(ClipScaleAttrs{3}), .low = 1, .high = 4});
}

// A gradient may be one number for many elements, as that of a sum is: then it need not be written out.
void define_sgd(OpRegistry& ops) {
  const auto num_states = [](const SgdAttrs& a) -> std::size_t { return a.momentum ? 1 : 0; };
  OpDef& def = define_update<SgdAttrs>(
                   ops, "sgd", "Stochastic gradient descent with optional (Nesterov) momentum; g may broadcast.",
                   num_states, {{false, false}, {true, false}, {true, true}})
                   .infer([num_states](const InferContext& c) {
                     return infer_update(c, num_states(c.attrs<SgdAttrs>()), 0, GradientShape::kBroadcasts);
                   });
  const TensorType w{DType::kF32, {3, 5}}, settings{DType::kF32, {kNumSettings}}, step{DType::kF32, {}};
  for (const Shape& g : {Shape{}, Shape{3, 1}, Shape{5}}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      def.example({.inputs = {w, {type, g}, settings, step},
                   .attrs = Attrs::of(SgdAttrs{false, false}),
                   .low = 0.1,
                   .high = 0.3});
      def.example({.inputs = {w, {type, g}, settings, step, w},
                   .attrs = Attrs::of(SgdAttrs{true, true}),
                   .low = 0.1,
                   .high = 0.3});
    }
  }
}

}  // namespace

void define_optimizer(OpRegistry& ops) {
  define_sgd(ops);
  define_update<AdamAttrs>(ops, "adam", "Adam, or AdamW with a decoupled weight decay.",
                           [](const AdamAttrs&) -> std::size_t { return 2; },
                           {{false, true}, {true, true}, {true, false}});
  define_update<RmspropAttrs>(ops, "rmsprop", "RMSprop, with optional momentum, centred or as TensorFlow does it.",
                              rmsprop_states, {{false, false, false}, {true, true, false}, {true, false, true}});
  define_update<LambAttrs>(ops, "lamb", "LAMB (You et al. 2019): Adam whose step is scaled layer by layer.",
                           [](const LambAttrs&) -> std::size_t { return 2; }, {{true}, {false}});
  define_sharded_lamb(ops);
  define_clipping(ops);
}

}  // namespace aspen
