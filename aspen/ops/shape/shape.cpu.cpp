// The moves of the reference as planes of rows, on the threads of the device; pad as a copy with places of its own.
#include "aspen/ops/shape/shape.h"

#include <algorithm>
#include <cstring>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/api/convert.h"
#include "aspen/backends/cpu/mapped_copy.h"
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

// Concatenation in the order in which the result lies in memory, which is written once from one end to the other: runs
// of all inputs in turn. Cut anywhere.
class RunConcat {
 public:
  explicit RunConcat(const KernelRequest& request) {
    const TensorType& y = request.outputs[0];
    AxisLines lines(y.shape, request.attrs.as<ConcatAttrs>().axis, "concat");
    row_ = static_cast<std::int64_t>(y.bytes()) / std::max(lines.outer, std::int64_t{1});
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      std::int64_t bytes = static_cast<std::int64_t>(request.inputs[i].type.bytes());
      if (bytes == 0) continue;
      std::int64_t begin = runs_.empty() ? 0 : runs_.back().begin + runs_.back().bytes;
      runs_.push_back({i, begin, bytes / lines.outer});
    }
    auto bytes = static_cast<std::int64_t>(y.bytes());
    chunks_ = cut(bytes, kMoveCost / 4 * static_cast<double>(bytes), {.multiple = 64});
  }

  // Calls cost more than short runs do.
  bool is_worthwhile() const {
    constexpr std::int64_t kLongRun = 512;
    return std::all_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.bytes >= kLongRun; });
  }

  void run(const KernelArgs& args) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      std::int64_t row = chunk.begin / row_, place = chunk.begin % row_;
      auto run = std::find_if(runs_.begin(), runs_.end(), [&](const Run& r) { return place < r.begin + r.bytes; });
      for (std::int64_t at = chunk.begin; at < chunk.end;) {
        std::int64_t skipped = at - row * row_ - run->begin, n = std::min(run->bytes - skipped, chunk.end - at);
        std::memcpy(static_cast<std::byte*>(args.outputs[0]) + at,
                    static_cast<const std::byte*>(args.inputs[run->input]) + row * run->bytes + skipped,
                    static_cast<std::size_t>(n));
        at += n;
        if (++run == runs_.end()) run = runs_.begin(), ++row;
      }
    });
  }

 private:
  struct Run {
    std::size_t input;
    std::int64_t begin, bytes;  // in a row of the result
  };

  std::vector<Run> runs_;
  std::int64_t row_ = 0;  // bytes of the result from the axis on
  Chunks chunks_;
};

std::unique_ptr<Kernel> make_concat(const KernelRequest& request, std::string&) {
  if (RunConcat concat(request); concat.is_worthwhile()) {
    return make_kernel([concat](const KernelArgs& args) { concat.run(args); });
  }
  std::vector<PlannedMove> planned;
  std::vector<Move> moves = concat_moves(request);
  for (std::size_t i = 0; i < moves.size(); ++i) planned.emplace_back(i, size_of(request.outputs[0].dtype), moves[i]);
  return make_kernel([planned](const KernelArgs& args) {
    for (const PlannedMove& move : planned) move.run(args);
  });
}

std::unique_ptr<Kernel> make_pad(const KernelRequest& request, std::string&) {
  const auto& attrs = request.attrs.as<PadAttrs>();
  const Shape &x = request.inputs[0].type.shape, &y = request.outputs[0].shape;
  std::vector<Places> places;
  for (std::size_t i = 0; i < x.size(); ++i) {
    PadRange range = pad_range(attrs, i, x[i]);
    Places& along = places.emplace_back(static_cast<std::size_t>(y[i]), -1);
    for (std::int64_t k = range.begin; k < range.end; ++k) along[range.target(k)] = k;
  }
  std::byte value[8] = {};
  dispatch_stored(request.outputs[0].dtype, [&](auto tag) {
    auto element = convert<typename decltype(tag)::type>(attrs.value);
    std::memcpy(value, &element, sizeof(element));
  });
  MappedCopy copy(size_of(request.outputs[0].dtype), x, places, value);
  return make_kernel([copy](const KernelArgs& args) { copy.run(args, args.inputs[0], args.outputs[0]); });
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
