// Pooling. Inputs may come without the batch axis; 1-D, 2-D and 3-D differ in the number of spatial axes only.
#include <optional>

#include "aspen/ops/pool/pool.h"
#include "aspen/ops/reduce/reduce.h"
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// x with a batch axis, and back.
struct Batched {
  Expr x;
  bool added;
  std::size_t spatial;

  Expr undo(Expr y) const { return added ? squeeze(y, 0) : y; }
};

Batched batched(Call& call, Expr x, std::size_t spatial) {
  if (x.shape().size() == spatial + 2) return {x, false, spatial};
  if (x.shape().size() == spatial + 1) return {unsqueeze(x, 0), true, spatial};
  throw UserError("[{}] an input of shape {} has {} axes; expected {}, or {} without the batch.", call.name(),
                  to_string(x.shape()), x.shape().size(), spatial + 2, spatial + 1);
}

aspen::PoolAttrs window(Call& call, std::size_t spatial) {
  aspen::PoolAttrs attrs;
  attrs.kernel = repeated(call.integers("kernel_size"), spatial);
  std::vector<std::int64_t> stride = call.integers("stride");
  attrs.stride = stride.empty() ? attrs.kernel : repeated(stride, spatial);
  attrs.padding = repeated(call.integers("padding"), spatial);
  attrs.ceil_mode = call.boolean("ceil_mode");
  for (std::size_t i = 0; i < spatial; ++i) {
    if (attrs.padding[i] * 2 > attrs.kernel[i]) {
      throw UserError("[{}] padding {} is more than half of the kernel {}.", call.name(), attrs.padding[i],
                      attrs.kernel[i]);
    }
  }
  return attrs;
}

// max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool
// ceil_mode=False) max_pool2d_with_indices(...) -> (Tensor, Tensor): positions within the plane; and the forms for 1
// and 3 axes
Handler max_pool(std::size_t spatial, bool with_indices) {
  return [spatial, with_indices](Call& call) {
    Batched in = batched(call, expr(call, call.value("self")), spatial);
    aspen::PoolAttrs attrs = window(call, spatial);
    attrs.dilation = repeated(call.integers("dilation"), spatial);
    aspen::Op* op = call.b.emit("max_pool", {in.x.v}, attrs);
    call.result(in.undo(expr(call, op->output(0))).v, call.dtype("self"));
    if (with_indices) call.result(in.undo(expr(call, op->output(1))).v, ScalarType::Long);
  };
}

// avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool
// count_include_pad=True, int? divisor_override=None); avg_pool1d has no divisor_override
Handler avg_pool(std::size_t spatial) {
  return [spatial](Call& call) {
    Batched in = batched(call, expr(call, call.value("self")), spatial);
    aspen::PoolAttrs attrs = window(call, spatial);
    attrs.dilation.assign(spatial, 1);
    attrs.count_include_pad = call.boolean("count_include_pad");
    if (call.has("divisor_override")) {
      attrs.divisor = call.integer("divisor_override");
      if (attrs.divisor == 0) throw UserError("[{}] divisor_override is 0; expected anything else.", call.name());
    }
    // Integers are averaged in floating point and cut back.
    bool floating = aspen::is_floating(in.x.dtype());
    Expr x = floating ? in.x : cast(in.x, DType::kF32);
    Expr y = expr(call, call.b.make("avg_pool", {x.v}, attrs));
    call.result(in.undo(cast(y, in.x.dtype())).v, call.dtype("self"));
  };
}

std::vector<std::int64_t> output_size(Call& call, const Batched& in) {
  // None keeps the size of the input; it arrives as -1 or as an absent entry.
  std::vector<std::int64_t> size = repeated(call.integers("output_size"), in.spatial);
  for (std::size_t i = 0; i < in.spatial; ++i) {
    if (size[i] < 0) size[i] = in.x.shape()[i + 2];
  }
  return size;
}

// adaptive_avg_pool2d(Tensor self, SymInt[2] output_size), _adaptive_avg_pool2d(...); 1 and 3 axes
Handler adaptive_avg_pool(std::size_t spatial) {
  return [spatial](Call& call) {
    Batched in = batched(call, expr(call, call.value("self")), spatial);
    std::vector<std::int64_t> size = output_size(call, in);
    Expr y;
    if (std::all_of(size.begin(), size.end(), [](auto extent) { return extent == 1; })) {
      Axes axes;
      for (std::size_t i = 0; i < spatial; ++i) axes.push_back(static_cast<std::int64_t>(i) + 2);
      y = cast(mean(in_float(in.x), axes, true), in.x.dtype());
    } else {
      y = expr(call, call.b.make("adaptive_avg_pool", {in.x.v}, aspen::AdaptiveAvgPoolAttrs{size, {}}));
    }
    call.result(in.undo(y).v, call.dtype("self"));
  };
}

struct Bin {
  std::int64_t start, end;
};

std::vector<Bin> bins(std::int64_t in, std::int64_t out) {
  std::vector<Bin> list;
  for (std::int64_t i = 0; i < out; ++i) list.push_back({i * in / out, ((i + 1) * in + out - 1) / out});
  return list;
}

// Positions, in a plane of the given extents, of every element of every bin; bins are padded to equal size by
// repeating their first element, which changes neither the largest value nor where it is found first.
struct BinTable {
  std::vector<std::int32_t> positions;
  std::int64_t bins = 1, width = 1;
};

BinTable bin_table(const std::vector<std::int64_t>& in, const std::vector<std::int64_t>& out) {
  std::vector<std::vector<std::int32_t>> cells{{0}};
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    std::vector<std::vector<std::int32_t>> finer;
    for (const auto& cell : cells) {
      for (Bin bin : bins(in[axis], out[axis])) {
        std::vector<std::int32_t> positions;
        for (std::int32_t base : cell) {
          for (auto i = bin.start; i < bin.end; ++i)
            positions.push_back(static_cast<std::int32_t>(base * in[axis] + i));
        }
        finer.push_back(std::move(positions));
      }
    }
    cells = std::move(finer);
  }
  BinTable table;
  table.bins = static_cast<std::int64_t>(cells.size());
  for (const auto& cell : cells) table.width = std::max(table.width, static_cast<std::int64_t>(cell.size()));
  for (const auto& cell : cells) {
    for (std::int64_t i = 0; i < table.width; ++i)
      table.positions.push_back(cell[i < static_cast<std::int64_t>(cell.size()) ? i : 0]);
  }
  return table;
}

// Windows that touch and cover the axes; nothing if the bins are not all of one size.
std::optional<aspen::PoolAttrs> even_bins(const std::vector<std::int64_t>& in, const std::vector<std::int64_t>& out) {
  aspen::PoolAttrs attrs;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (out[axis] < 1 || in[axis] < 1 || in[axis] % out[axis] != 0) return std::nullopt;
    attrs.kernel.push_back(in[axis] / out[axis]);
  }
  attrs.stride = attrs.kernel;
  attrs.padding.assign(in.size(), 0);
  attrs.dilation.assign(in.size(), 1);
  return attrs;
}

// adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor); 1 and 3 axes. The elements of each bin
// are taken side by side and their largest is found, unless all bins are windows of one size; the gradient goes to the
// position returned.
Handler adaptive_max_pool(std::size_t spatial) {
  return [spatial](Call& call) {
    Batched in = batched(call, expr(call, call.value("self")), spatial);
    std::vector<std::int64_t> size = output_size(call, in), extents(in.x.shape().begin() + 2, in.x.shape().end());
    if (auto attrs = even_bins(extents, size)) {
      aspen::Op* op = call.b.emit("max_pool", {in.x.v}, *attrs);
      call.result(in.undo(expr(call, op->output(0))).v, call.dtype("self"));
      return call.result(in.undo(expr(call, op->output(1))).v, ScalarType::Long);
    }
    BinTable table = bin_table(extents, size);
    std::int64_t batch = in.x.size(0), channels = in.x.size(1), plane = aspen::numel(extents);
    Expr positions = constant_i32(call.b, {table.bins * table.width}, table.positions);
    Expr flat = reshape(in.x, {batch, channels, plane});
    Expr side_by_side = reshape(take(detach(flat), positions, 2), {batch, channels, table.bins, table.width});
    Expr within = expr(call, call.b.make("argreduce", {side_by_side.v}, aspen::ArgReduceAttrs{3, true, false}));
    Expr offset = within + iota(call.b, DType::kI32, table.bins, 0, static_cast<double>(table.width));
    Expr index = take(positions, offset, 0);
    Shape shape{batch, channels};
    shape.insert(shape.end(), size.begin(), size.end());
    call.result(in.undo(reshape(gather(flat, index, 2), shape)).v, call.dtype("self"));
    call.result(in.undo(reshape(index, shape)).v, ScalarType::Long);
  };
}

// max_unpool2d(Tensor self, Tensor indices, int[2] output_size), max_unpool3d(Tensor self, Tensor indices, int[3]
// output_size, int[3] stride, int[3] padding): each element goes back to its position, zeros elsewhere
Handler max_unpool(std::size_t spatial) {
  return [spatial](Call& call) {
    Batched in = batched(call, expr(call, call.value("self")), spatial);
    Batched index = batched(call, expr(call, call.value("indices")), spatial);
    std::vector<std::int64_t> size = call.integers("output_size");
    std::int64_t batch = in.x.size(0), channels = in.x.size(1), rest = in.x.numel() / (batch * channels);
    Expr zeros = full(call.b, in.x.dtype(), {batch, channels, aspen::numel(size)}, 0);
    Expr y =
        scatter(zeros, reshape(index.x, {batch, channels, rest}), reshape(in.x, {batch, channels, rest}), 2, "set");
    Shape shape{batch, channels};
    shape.insert(shape.end(), size.begin(), size.end());
    call.result(in.undo(reshape(y, shape)).v, call.dtype("self"));
  };
}

}  // namespace

void register_pooling(HandlerTable& table) {
  for (std::size_t spatial = 1; spatial <= 3; ++spatial) {
    std::string axes = std::to_string(spatial) + "d";
    table.add("aten::max_pool" + axes, max_pool(spatial, false));
    table.add("aten::max_pool" + axes + "_with_indices", max_pool(spatial, true));
    table.add("aten::avg_pool" + axes, avg_pool(spatial));
    table.add("aten::adaptive_avg_pool" + axes, adaptive_avg_pool(spatial));
    table.add("aten::adaptive_max_pool" + axes, adaptive_max_pool(spatial));
  }
  table.add("aten::_adaptive_avg_pool2d", adaptive_avg_pool(2));
  table.add("aten::_adaptive_avg_pool3d", adaptive_avg_pool(3));
  table.add("aten::max_unpool2d", max_unpool(2));
  table.add("aten::max_unpool3d", max_unpool(3));
}

}  // namespace poptorch
