// The moves of the reference as planes of rows, on the threads of the device. pad writes every line of the output once:
// what comes before, the elements, what comes behind.
#include "aspen/ops/shape/shape.h"

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/convert.h"
#include "aspen/backends/cpu/strided_move.h"
#include "aspen/ops/shape/moves.ref.h"

namespace aspen {
namespace {

// A move between the buffers of a call; offsets in bytes.
struct PlannedMove {
  std::size_t input;
  std::int64_t from, to;
  StridedMove move;

  PlannedMove(std::size_t input, std::size_t size, const Move& m)
      : input(input), from(m.from * static_cast<std::int64_t>(size)), to(m.to * static_cast<std::int64_t>(size)),
        move(size, m.shape, m.from_strides, m.to_strides) {}

  void run(const KernelArgs& args) const {
    move.run(args, static_cast<const std::byte*>(args.inputs[input]) + from,
             static_cast<std::byte*>(args.outputs[0]) + to);
  }
};

template <Move (*make_move)(const KernelRequest&)>
std::unique_ptr<Kernel> make_view(const KernelRequest& request, std::string&) {
  PlannedMove move(0, size_of(request.outputs[0].dtype), make_move(request));
  return make_kernel([move](const KernelArgs& args) { move.run(args); });
}

std::unique_ptr<Kernel> make_slice_update(const KernelRequest& request, std::string&) {
  const TensorType& x = request.outputs[0];
  std::size_t size = size_of(x.dtype);
  PlannedMove rest(0, size, view_move(request, 0, contiguous_strides(x.shape)));
  PlannedMove update(1, size, slice_update_move(request));
  return make_kernel([rest, update](const KernelArgs& args) {
    if (args.inputs[0] != args.outputs[0]) rest.run(args);
    update.run(args);
  });
}

std::unique_ptr<Kernel> make_concat(const KernelRequest& request, std::string&) {
  std::vector<PlannedMove> planned;
  std::vector<Move> moves = concat_moves(request);
  for (std::size_t i = 0; i < moves.size(); ++i) planned.emplace_back(i, size_of(request.outputs[0].dtype), moves[i]);
  return make_kernel([planned](const KernelArgs& args) {
    for (const PlannedMove& move : planned) move.run(args);
  });
}

// -- pad --------------------------------------------------------------------------------------------------------

// One axis of the output: `count` elements of the input, every step-th from `first` on.
struct PadAxis {
  std::int64_t extent, first, count, step;
  std::int64_t from, from_stride;  // of the first element that is kept, and of the axis in the input

  // For every place along the axis how far into the input it leads, -1 for padding.
  std::vector<std::int64_t> sources() const {
    std::vector<std::int64_t> result(static_cast<std::size_t>(extent), -1);
    for (std::int64_t k = 0; k < count; ++k) result[first + k * step] = from + k * from_stride;
    return result;
  }
};

// Outermost first. An axis that is kept as it is becomes part of the one before it.
std::vector<PadAxis> pad_axes(const KernelRequest& request) {
  const auto& attrs = request.attrs.as<PadAttrs>();
  const Shape &x = request.inputs[0].type.shape, &y = request.outputs[0].shape;
  std::vector<std::int64_t> strides = contiguous_strides(x);
  std::vector<PadAxis> axes = {{1, 0, 1, 1, 0, 0}};
  for (std::size_t i = 0; i < x.size(); ++i) {
    PadRange range = pad_range(attrs, i, x[i]);
    bool as_it_is = range.step == 1 && range.count() == x[i] && y[i] == x[i];
    PadAxis& last = axes.back();
    if (as_it_is && axes.size() > 1 && last.step == 1) {
      last = {last.extent * x[i], last.first * x[i], last.count * x[i], 1, last.from, strides[i]};
    } else {
      axes.push_back(
          {y[i], range.target(range.begin), range.count(), range.step, range.begin * strides[i], strides[i]});
    }
  }
  if (axes.size() == 1) axes.push_back({1, 0, 1, 1, 0, 1});  // a number
  return axes;
}

class PadKernel final : public Kernel {
 public:
  explicit PadKernel(const KernelRequest& request)
      : size_(static_cast<std::int64_t>(size_of(request.outputs[0].dtype))) {
    dispatch_stored(request.outputs[0].dtype, [&](auto tag) {
      auto element = convert<typename decltype(tag)::type>(request.attrs.as<PadAttrs>().value);
      std::memcpy(value_, &element, sizeof(element));
    });
    std::vector<PadAxis> axes = pad_axes(request);
    line_ = axes.back();
    axes.pop_back();
    std::int64_t num_lines = line_.extent == 0 ? 0 : 1;
    for (const PadAxis& axis : axes) {
      sources_.push_back(axis.sources());
      num_lines *= axis.extent;
    }
    loop_ = plane_loop(static_cast<std::size_t>(size_));
    double bytes = static_cast<double>(request.outputs[0].bytes());
    chunks_ = cut(num_lines, kMoveCost / 4 * bytes);
  }

  void run(const KernelArgs& args) const override {
    auto* from = static_cast<const std::byte*>(args.inputs[0]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    const std::vector<std::int64_t>& sources = sources_.back();
    const auto rows = std::ssize(sources);
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t line = chunk.begin; line < chunk.end;) {
        std::int64_t base = source_of(line / rows);
        for (std::int64_t row = line % rows; row < rows && line < chunk.end; ++row, ++line) {
          bool inside = base >= 0 && sources[row] >= 0 && line_.count > 0;
          write_line(from, inside ? base + sources[row] : -1, to + line * line_.extent * size_);
        }
      }
    });
  }

 private:
  // Where the elements behind this place of all axes but the last two come from, -1 for padding.
  std::int64_t source_of(std::int64_t place) const {
    std::int64_t source = line_.from;
    for (std::size_t a = sources_.size() - 1; a-- > 0 && source >= 0;) {
      std::int64_t step = sources_[a][place % std::ssize(sources_[a])];
      place /= std::ssize(sources_[a]);
      source = step >= 0 ? source + step : -1;
    }
    return source;
  }

  void write_line(const std::byte* from, std::int64_t source, std::byte* to) const {
    if (source < 0) return fill(to, line_.extent);
    std::int64_t end = line_.first + (line_.count - 1) * line_.step + 1;
    if (line_.step > 1) {
      fill(to, line_.extent);
    } else {
      fill(to, line_.first);
      fill(to + end * size_, line_.extent - end);
    }
    loop_({{}, {line_.count, 1, line_.step}}, from + source * size_, to + line_.first * size_);
  }

  void fill(std::byte* to, std::int64_t n) const {
    if (n > 0) loop_({{}, {n, 0, 1}}, value_, to);
  }

  std::int64_t size_;
  std::byte value_[8] = {};
  std::vector<std::vector<std::int64_t>> sources_;  // of all axes but the last, at least one
  PadAxis line_{};
  PlaneLoop loop_ = nullptr;
  Chunks chunks_;
};

std::unique_ptr<Kernel> make_pad(const KernelRequest& request, std::string&) {
  return std::make_unique<PadKernel>(request);
}

}  // namespace

void register_shape_cpu(KernelRegistry& kernels) {
  kernels.add("transpose", make_view<transpose_move>);
  kernels.add("broadcast", make_view<broadcast_move>);
  kernels.add("reverse", make_view<reverse_move>);
  kernels.add("slice", make_view<slice_move>);
  kernels.add("slice_update", make_slice_update);
  kernels.add("pad", make_pad);
  kernels.add("concat", make_concat);
}

}  // namespace aspen
