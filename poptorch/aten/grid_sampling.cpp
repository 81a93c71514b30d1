// Reading images at places given by a grid, and the grids of affine maps. In the grid, coordinates run from -1 to 1
// over the image and the last axis of the image comes first.
//   input: (N, C, spatial...), grid: (N, out..., axes), result: (N, C, out...)
#include <cmath>

#include "poptorch/aten/support/expression.h"
#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

enum Interpolation { kLinear, kNearest, kCubic };
enum Padding { kZeros, kBorder, kReflection };

struct Sampler {
  Expr image;  // (N, C, plane)
  Shape extents;
  std::int64_t padding;
  bool align_corners;

  // From [-1, 1] to elements: -1 and 1 are the centres of the outermost elements, or their outer edges.
  Expr to_elements(Expr coordinate, std::int64_t extent) const {
    double size = static_cast<double>(extent);
    if (align_corners) return (coordinate + 1.0) * ((size - 1) / 2);
    return ((coordinate + 1.0) * size - 1.0) * 0.5;
  }

  // Within the axis; no gradient where it was outside, or on the edge, as in torch.
  static Expr clipped(Expr x, std::int64_t extent) {
    double last = static_cast<double>(extent - 1);
    return bounded(x, 0, last);
  }

  // Mirrored at the centres of the outermost elements, or at their outer edges, as often as needed.
  Expr reflected(Expr x, std::int64_t extent) const {
    double low = align_corners ? 0 : -0.5, span = static_cast<double>(align_corners ? extent - 1 : extent);
    if (span == 0) return detach(x) * 0.0;
    Expr away = abs(x - low);
    Expr flips = floor(detach(away) * (1 / span));
    Expr rest = away - flips * span;
    Expr odd = binary("rem_floor", flips, 2.0) == 1.0;
    return where(odd, span - rest, rest) + low;
  }

  Expr padded(Expr x, std::int64_t extent) const {
    if (padding == kZeros) return x;
    return clipped(padding == kReflection ? reflected(x, extent) : x, extent);
  }

  // The elements at whole-numbered coordinates, one (N, points) per axis; 0 outside. (N, C, points)
  Expr read(const std::vector<Expr>& places) const {
    Expr inside, index;
    for (std::size_t axis = 0; axis < places.size(); ++axis) {
      Expr place = detach(places[axis]);
      double last = static_cast<double>(extents[axis] - 1);
      Expr within = place >= 0.0 && place <= last;
      Expr whole = cast(clamp(where(within, place, 0.0), 0, last), DType::kI32);
      inside = axis == 0 ? within : inside && within;
      index = axis == 0 ? whole : index * static_cast<double>(extents[axis]) + whole;
    }
    Shape shape{image.size(0), image.size(1), index.size(1)};
    Expr values = gather(image, broadcast(unsqueeze(index, 1), shape), 2);
    return where(broadcast(unsqueeze(inside, 1), shape), values, 0.0);
  }
};

Expr weighted(Expr values, Expr weight) { return values * unsqueeze(weight, 1); }

// The 2 (linear) or 4 (cubic) neighbours along each axis: offset from the floor, and weight.
struct Neighbour {
  double offset;
  Expr weight;
};

// Keys' cubic convolution with a = -3/4.
Expr cubic_near(Expr x) { return ((x * 1.25) - 2.25) * x * x + 1.0; }
Expr cubic_far(Expr x) { return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0; }

std::vector<Neighbour> neighbours(Expr t, bool cubic) {
  if (!cubic) return {{0, 1.0 - t}, {1, t}};
  return {{-1, cubic_far(t + 1.0)}, {0, cubic_near(t)}, {1, cubic_near(1.0 - t)}, {2, cubic_far(2.0 - t)}};
}

Expr interpolated(const Sampler& sampler, const std::vector<Expr>& coordinates, bool cubic) {
  std::vector<Expr> floors;
  std::vector<std::vector<Neighbour>> sides;
  std::size_t combinations = 1;
  for (const Expr& coordinate : coordinates) {
    floors.push_back(floor(detach(coordinate)));
    sides.push_back(neighbours(coordinate - floors.back(), cubic));
    combinations *= sides.back().size();
  }
  Expr total;
  for (std::size_t combination = 0; combination < combinations; ++combination) {
    std::vector<Expr> places;
    Expr weight;
    std::size_t rest = combination;
    for (std::size_t axis = 0; axis < floors.size(); ++axis) {
      const Neighbour& side = sides[axis][rest % sides[axis].size()];
      rest /= sides[axis].size();
      Expr place = floors[axis] + side.offset;
      // Cubic neighbours are padded one by one, linear ones lie between padded coordinates.
      places.push_back(cubic ? sampler.padded(place, sampler.extents[axis]) : place);
      weight = axis == 0 ? side.weight : weight * side.weight;
    }
    Expr term = weighted(sampler.read(places), weight);
    total = combination == 0 ? term : total + term;
  }
  return total;
}

// grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners),
// grid_sampler_3d(...)
Handler grid_sampler(std::int64_t axes) {
  return [axes](Call& call) {
    Expr image = expr(call, call.value("input")), grid = in_float(expr(call, call.value("grid")));
    if (image.rank() != axes + 2 || grid.rank() != axes + 2 || grid.shape().back() != axes ||
        grid.size(0) != image.size(0)) {
      throw UserError("[{}] input {} and grid {} do not fit; expected (N, C, {} axes) and (N, {} axes, {}).",
                      call.name(), to_string(image.shape()), to_string(grid.shape()), axes, axes, axes);
    }
    std::int64_t mode = call.integer("interpolation_mode"), batch = image.size(0), channels = image.size(1);
    if (mode == kCubic && axes != 2)
      throw UserError("[{}] bicubic interpolation takes images of two axes, not {}.", call.name(), axes);
    Shape extents(image.shape().begin() + 2, image.shape().end());
    Sampler sampler{reshape(in_float(image), {batch, channels, aspen::numel(extents)}), extents,
                    call.integer("padding_mode"), call.boolean("align_corners")};
    std::int64_t points = grid.numel() / (batch * axes);
    Expr flat = reshape(grid, {batch, points, axes});
    std::vector<Expr> coordinates;
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      std::int64_t extent = extents[static_cast<std::size_t>(axis)];
      Expr x = sampler.to_elements(squeeze(slice(flat, 2, axes - 1 - axis, axes - axis), 2), extent);
      coordinates.push_back(mode == kCubic ? x : sampler.padded(x, extent));
    }
    if (mode == kNearest) {
      for (Expr& coordinate : coordinates) coordinate = round(coordinate);
    }
    Expr y = mode == kNearest ? sampler.read(coordinates) : interpolated(sampler, coordinates, mode == kCubic);
    Shape shape{batch, channels};
    shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
    call.result(cast(reshape(y, shape), image.dtype()).v, call.dtype("input"));
  };
}

// -1 to 1 over an axis, at the centres of its elements.
std::vector<double> centres(std::int64_t extent, bool align_corners) {
  double size = static_cast<double>(extent);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < extent; ++i) {
    double at = extent > 1 ? 2.0 * static_cast<double>(i) / (size - 1) - 1 : 0;
    numbers.push_back(align_corners ? at : at * (size - 1) / size);
  }
  return numbers;
}

// affine_grid_generator(Tensor theta, int[] size, bool align_corners): theta (N, axes, axes + 1) applied to the
// coordinates of every element of an image of the given size
void affine_grid(Call& call) {
  Expr theta = in_float(expr(call, call.value("theta")));
  std::vector<std::int64_t> size = call.integers("size");
  std::int64_t axes = static_cast<std::int64_t>(size.size()) - 2;
  if (theta.rank() != 3 || axes < 2 || axes > 3 || theta.size(1) != axes || theta.size(2) != axes + 1) {
    throw UserError("[affine_grid] theta of shape {} does not fit an image of size {}; expected ({}, {}, {}).",
                    to_string(theta.shape()), to_string(size), size.at(0), axes, axes + 1);
  }
  bool align_corners = call.boolean("align_corners");
  Shape extents(size.begin() + 2, size.end());
  std::vector<std::vector<double>> along;
  for (auto extent : extents) along.push_back(centres(extent, align_corners));
  std::vector<double> points;  // (x, y, [z,] 1) of every element
  for (std::int64_t i = 0; i < aspen::numel(extents); ++i) {
    std::int64_t rest = i;
    for (std::int64_t axis = axes - 1; axis >= 0; --axis) {
      std::int64_t extent = extents[static_cast<std::size_t>(axis)];
      points.push_back(along[static_cast<std::size_t>(axis)][static_cast<std::size_t>(rest % extent)]);
      rest /= extent;
    }
    points.push_back(1);
  }
  Expr base = constant(call.b, theta.dtype(), {1, aspen::numel(extents), axes + 1}, points);
  Shape shape{size[0]};
  shape.insert(shape.end(), extents.begin(), extents.end());
  shape.push_back(axes);
  Expr y = reshape(matmul(base, transpose(theta, {0, 2, 1})), shape);
  call.result(cast(y, graph_dtype(call.dtype("theta"))).v, call.dtype("theta"));
}

}  // namespace

void register_grid_sampling(HandlerTable& table) {
  table.add("aten::grid_sampler_2d", grid_sampler(2));
  table.add("aten::grid_sampler_3d", grid_sampler(3));
  table.add("aten::affine_grid_generator", affine_grid);
}

}  // namespace poptorch
