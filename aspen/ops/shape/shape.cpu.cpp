// The moves of the reference as planes of rows, on the threads of the device; pad as a copy with places of its own.
#include "aspen/ops/shape/shape.h"

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

std::unique_ptr<Kernel> make_concat(const KernelRequest& request, std::string&) {
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
