// resize: interpolation of the spatial axes, one weighted sum per output element; resize_grad is the transposed map,
// so each is the gradient of the other.
#include "aspen/ops/resize/resize.h"

#include "aspen/ops/build.h"

namespace aspen {
namespace {

TensorType resized(const InferContext& c, const TensorType& x) {
  const auto& attrs = c.attrs<ResizeAttrs>();
  c.check(is_floating(x.dtype) && x.rank() >= 3 && x.rank() <= 5,
          "takes a floating point input (N, C, spatial...) with one to three spatial axes, not {}.", to_string(x));
  c.check(attrs.mode == "nearest" || attrs.mode == "nearest_exact" || attrs.mode == "linear" || attrs.mode == "cubic",
          "unknown mode \"{}\"; expected nearest, nearest_exact, linear or cubic.", attrs.mode);
  c.check(std::ssize(attrs.size) == x.rank() - 2 && attrs.scales.size() == attrs.size.size(),
          "size {} and {} scales need one entry per spatial axis of {}.", to_string(attrs.size), attrs.scales.size(),
          to_string(x));
  TensorType y{x.dtype, {x.shape[0], x.shape[1]}};
  for (std::size_t i = 0; i < attrs.size.size(); ++i) {
    c.check(attrs.size[i] >= 1 && x.shape[i + 2] >= 1 && attrs.scales[i] >= 0,
            "cannot resize spatial axis {} of {} to {} in steps of {}; expected extents >= 1 and a step >= 0.", i,
            to_string(x), attrs.size[i], attrs.scales[i]);
    y.shape.push_back(attrs.size[i]);
  }
  return y;
}

std::vector<TensorType> infer_resize(const InferContext& c) { return {resized(c, c.in(0))}; }

std::vector<TensorType> infer_resize_grad(const InferContext& c) {
  TensorType x{c.in(0).dtype, c.attrs<ResizeAttrs>().shape};
  TensorType y = resized(c, x);
  c.check(c.in(0) == y, "the gradient is {}, but the resize it belongs to yields {}.", to_string(c.in(0)),
          to_string(y));
  return {x};
}

struct Case {
  Shape x;
  ResizeAttrs attrs;
};

// Up, down and by fractions; one to three axes.
std::vector<Case> example_cases() {
  return {
      {{2, 2, 5}, {"nearest", {8}, {5.0 / 8}}},
      {{1, 2, 4, 6}, {"nearest", {8, 4}, {0.5, 1.5}}},
      {{1, 2, 4, 5}, {"nearest_exact", {7, 3}, {4.0 / 7, 5.0 / 3}}},
      {{2, 1, 6}, {"linear", {4}, {1.5}}},
      {{1, 2, 4, 5}, {"linear", {7, 9}, {4.0 / 7, 5.0 / 9}}},
      {{1, 2, 3, 4}, {"linear", {5, 7}, {0.5, 0.5}, true}},
      {{1, 1, 3, 2, 3}, {"linear", {4, 3, 5}, {0.75, 2.0 / 3, 0.6}}},
      {{1, 2, 4, 5}, {"cubic", {6, 8}, {4.0 / 6, 5.0 / 8}}},
      {{1, 2, 5, 18}, {"linear", {3, 37}, {5.0 / 3, 18.0 / 37}}},
      {{1, 1, 9, 7}, {"cubic", {4, 3}, {9.0 / 4, 7.0 / 3}}},
  };
}

}  // namespace

void define_resize(OpRegistry& ops) {
  OpDef& forward = ops.define<ResizeAttrs>("resize")
                       .summary("Interpolates the spatial axes to another size.")
                       .input("x", "(N, C, spatial...), floating point")
                       .output("y", "(N, C, size...)")
                       .infer(infer_resize)
                       .gradient([](GradientContext& c) {
                         ResizeAttrs attrs = c.attrs<ResizeAttrs>();
                         attrs.shape = c.in(0)->shape();
                         c.set(0, c.b.make("resize_grad", {c.grad()}, attrs));
                       });
  OpDef& gradient = ops.define<ResizeAttrs>("resize_grad")
                        .summary("Gradient of resize by its input.")
                        .input("g", "gradient of y")
                        .output("dx", "attribute shape")
                        .infer(infer_resize_grad)
                        .gradient([](GradientContext& c) {
                          ResizeAttrs attrs = c.attrs<ResizeAttrs>();
                          attrs.shape.clear();
                          c.set(0, c.b.make("resize", {c.grad()}, attrs));
                        });
  for (const Case& e : example_cases()) {
    forward.example({.inputs = {{DType::kF32, e.x}}, .attrs = Attrs::of(e.attrs)});
    Shape y{e.x[0], e.x[1]};
    y.insert(y.end(), e.attrs.size.begin(), e.attrs.size.end());
    ResizeAttrs attrs = e.attrs;
    attrs.shape = e.x;
    gradient.example({.inputs = {{DType::kF32, y}}, .attrs = Attrs::of(attrs)});
  }
}

}  // namespace aspen
