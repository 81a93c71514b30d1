// remap: y[i, j, ...] = x[p(i), q(j), ...] with lists p, q, ... that are known beforehand: rolled tensors, borders that
// reflect, repeat or go round, windows side by side. remap_grad adds up what came from one place, so each is the
// gradient of the other.
#include "aspen/ops/remap/remap.h"

#include "aspen/ops/build.h"
#include "aspen/ops/remap/places.h"

namespace aspen {
namespace {

void check_runs(const InferContext& c, const TensorType& x) {
  const auto& runs = c.attrs<RemapAttrs>().runs;
  c.check(runs.size() % 4 == 0, "{} numbers are no runs; expected four for each.", runs.size());
  for (std::size_t r = 0; r < runs.size(); r += 4) {
    std::int64_t axis = runs[r], first = runs[r + 1], step = runs[r + 2], count = runs[r + 3];
    c.check(axis >= 0 && axis < x.rank() && (r == 0 || runs[r - 4] <= axis),
            "a run along axis {} of {}; expected axes of it in rising order.", axis, to_string(x));
    std::int64_t size = x.shape[axis], last = first + step * std::max<std::int64_t>(count - 1, 0);
    bool inside = first >= 0 && first < size && last >= 0 && last < size;
    c.check(count >= 0 && (count == 0 || first == -1 || inside),
            "a run of {} elements from {} in steps of {} leaves axis {} of {}.", count, first, step, axis,
            to_string(x));
  }
}

TensorType remapped(const InferContext& c, const TensorType& x) {
  check_runs(c, x);
  const auto& runs = c.attrs<RemapAttrs>().runs;
  TensorType y = x;
  for (std::size_t r = 0; r < runs.size(); r += 4) y.shape[runs[r]] = 0;
  for (std::size_t r = 0; r < runs.size(); r += 4) y.shape[runs[r]] += runs[r + 3];
  return y;
}

std::vector<TensorType> infer_remap(const InferContext& c) { return {remapped(c, c.in(0))}; }

std::vector<TensorType> infer_remap_grad(const InferContext& c) {
  TensorType x{c.in(0).dtype, c.attrs<RemapAttrs>().shape};
  c.check(is_floating(x.dtype), "adds up floating point numbers, not {}.", to_string(x));
  TensorType y = remapped(c, x);
  c.check(c.in(0) == y, "the gradient is {}, but the remap it belongs to yields {}.", to_string(c.in(0)), to_string(y));
  return {x};
}

// The places turned round, if each element of the axis stands in exactly one.
bool turn_round(AxisPlaces& places, std::int64_t size) {
  if (std::ssize(places) != size) return false;
  AxisPlaces back(places.size(), -1);
  for (std::int64_t i = 0; i < size; ++i) {
    if (places[i] < 0 || back[places[i]] >= 0) return false;
    back[places[i]] = i;
  }
  places = std::move(back);
  return true;
}

// Where no two places share an element the gradient is a remap as well.
void remap_gradient(GradientContext& c) {
  RemapAttrs attrs = c.attrs<RemapAttrs>(), back;
  const Shape& x = c.in(0)->shape();
  std::vector<AxisPlaces> places = remap_places(attrs, x);
  bool turns = true;
  for (std::size_t a = 0; turns && a < x.size(); ++a) {
    turns = turn_round(places[a], x[a]);
    if (turns) add_runs(back, static_cast<std::int64_t>(a), places[a]);
  }
  if (turns) return c.set(0, c.b.make("remap", {c.grad()}, back));
  attrs.shape = x;
  c.set(0, c.b.make("remap_grad", {c.grad()}, attrs));
}

struct Case {
  Shape x;
  RemapAttrs attrs;
  DType dtype = DType::kF32;
};

// Rolled, reflected, repeated, going round, with zeros around; windows that overlap, in steps and with gaps.
std::vector<Case> example_cases() {
  return {
      {{3, 7}, {{1, 5, 1, 2, 1, 0, 1, 5}, {}}},
      {{2, 5, 3}, {{0, 1, -1, 2, 1, 3, 1, 2, 1, 0, 1, 3}, {}}},
      {{1, 2, 5, 19}, {{2, 2, -1, 2, 2, 0, 1, 5, 2, 3, -1, 1, 3, 3, -1, 3, 3, 0, 1, 19, 3, 17, -1, 4}, {}}},
      {{2, 4, 18}, {{1, 0, 0, 3, 1, 0, 1, 4, 2, 0, 0, 2, 2, 0, 1, 18, 2, 17, 0, 3}, {}}},
      {{2, 3, 17}, {{2, -1, 0, 2, 2, 0, 1, 17, 2, -1, 0, 3}, {}}},
      {{2, 20}, {{1, 0, 1, 6, 1, 3, 1, 6, 1, 6, 1, 6, 1, 9, 1, 6}, {}}},
      {{2, 6, 9}, {{1, 0, 2, 3, 1, 1, 2, 3, 2, 0, 2, 4, 2, 2, 2, 3, 2, 8, 1, 1}, {}}},
      {{4, 3, 2, 3}, {{0, 3, 1, 1, 0, 0, 1, 3, 2, 1, -1, 2}, {}}},
      {{3, 4}, {{0, 0, 1, 0}, {}}},
      {{3, 21}, {{1, 20, -1, 21}, {}}, DType::kI32},
      {{2, 5}, {{1, 4, 1, 1, 1, 0, 1, 4}, {}}, DType::kBool},
  };
}

}  // namespace

void define_remap(OpRegistry& ops) {
  OpDef& forward = ops.define<RemapAttrs>("remap")
                       .summary("Elements of x in another order, repeated or left out, as lists along its axes say.")
                       .input("x", "any type")
                       .output("y", "type of x; axes with runs have as many elements as these")
                       .infer(infer_remap)
                       .gradient(remap_gradient);
  OpDef& gradient = ops.define<RemapAttrs>("remap_grad")
                        .summary("Gradient of remap: adds up what came from one place.")
                        .input("g", "gradient of y, floating point")
                        .output("dx", "attribute shape")
                        .infer(infer_remap_grad)
                        .gradient([](GradientContext& c) {
                          RemapAttrs attrs = c.attrs<RemapAttrs>();
                          attrs.shape.clear();
                          c.set(0, c.b.make("remap", {c.grad()}, attrs));
                        });
  for (const Case& e : example_cases()) {
    forward.example({.inputs = {{e.dtype, e.x}}, .attrs = Attrs::of(e.attrs)});
    if (e.dtype != DType::kF32) continue;
    Shape y;
    for (const AxisPlaces& places : remap_places(e.attrs, e.x)) y.push_back(std::ssize(places));
    RemapAttrs attrs = e.attrs;
    attrs.shape = e.x;
    gradient.example({.inputs = {{DType::kF32, y}}, .attrs = Attrs::of(attrs)});
  }
}

}  // namespace aspen
