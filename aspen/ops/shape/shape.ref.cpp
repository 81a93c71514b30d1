// Every op here is one kernel: fill the output, or take over an input, then run a list of strided copies planned
// when the kernel is made. Elements are bytes of a given size, so nothing is compiled per element type.
#include "aspen/ops/shape/shape.h"

#include <cstring>

#include "aspen/backends/api/convert.h"
#include "aspen/backends/api/kernel.h"
#include "aspen/backends/reference/strided_copy.h"
#include "aspen/ops/shape/pad_range.h"

namespace aspen {
namespace {

class MoveKernel final : public Kernel {
 public:
  explicit MoveKernel(const KernelRequest& request) : bytes_(request.outputs[0].bytes()) {}

  void fill(DType dtype, double value) {
    dispatch_stored(dtype, [&](auto tag) {
      auto element = convert<typename decltype(tag)::type>(value);
      fill_.resize(sizeof(element));
      std::memcpy(fill_.data(), &element, sizeof(element));
    });
  }
  void start_from_first_input() { copy_first_ = true; }

  // Offsets count elements.
  void move(std::size_t input, std::size_t element_size, std::int64_t from, std::int64_t to, StridedCopy copy) {
    auto size = static_cast<std::int64_t>(element_size);
    moves_.push_back({input, from * size, to * size, std::move(copy)});
  }

  void run(const KernelArgs& args) const override {
    auto* out = static_cast<std::byte*>(args.outputs[0]);
    if (!fill_.empty()) {
      for (std::size_t i = 0; i < bytes_; i += fill_.size()) std::memcpy(out + i, fill_.data(), fill_.size());
    }
    if (copy_first_ && args.inputs[0] != out && bytes_ > 0) std::memcpy(out, args.inputs[0], bytes_);
    for (const auto& m : moves_) m.copy.run(static_cast<const std::byte*>(args.inputs[m.input]) + m.from, out + m.to);
  }

 private:
  struct Move {
    std::size_t input;
    std::int64_t from, to;
    StridedCopy copy;
  };
  std::size_t bytes_;
  std::vector<std::byte> fill_;
  bool copy_first_ = false;
  std::vector<Move> moves_;
};

using Made = std::unique_ptr<MoveKernel>;

Made make_reshape(const KernelRequest& request) {
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->start_from_first_input();
  return kernel;
}

// One copy that reads x at `from` with the given strides and writes the whole output.
Made make_view(const KernelRequest& request, std::int64_t from, const std::vector<std::int64_t>& strides) {
  const TensorType& out = request.outputs[0];
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->move(0, size_of(out.dtype), from, 0,
               StridedCopy(size_of(out.dtype), out.shape, strides, contiguous_strides(out.shape)));
  return kernel;
}

Made make_transpose(const KernelRequest& request) {
  auto strides = contiguous_strides(request.inputs[0].type.shape);
  std::vector<std::int64_t> permuted;
  for (auto axis : request.attrs.as<TransposeAttrs>().permutation) permuted.push_back(strides[axis]);
  return make_view(request, 0, permuted);
}

Made make_broadcast(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].type.shape;
  auto strides = contiguous_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) strides[i] = 0;
  }
  strides.insert(strides.begin(), request.outputs[0].shape.size() - shape.size(), 0);
  return make_view(request, 0, strides);
}

Made make_reverse(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].type.shape;
  auto strides = contiguous_strides(shape);
  std::vector<bool> reversed(shape.size(), false);
  for (auto axis : request.attrs.as<ReverseAttrs>().axes) reversed[normalize_axis(axis, shape, "reverse")] = true;
  std::int64_t from = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!reversed[i]) continue;
    from += (shape[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  return make_view(request, from, strides);
}

// The place of the first element of a slice, and the strides that walk it.
std::int64_t slice_walk(const SliceAttrs& attrs, std::vector<std::int64_t>& strides) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += attrs.starts[i] * strides[i];
    strides[i] *= attrs.steps[i];
  }
  return offset;
}

Made make_slice(const KernelRequest& request) {
  auto strides = contiguous_strides(request.inputs[0].type.shape);
  auto from = slice_walk(request.attrs.as<SliceAttrs>(), strides);
  return make_view(request, from, strides);
}

Made make_slice_update(const KernelRequest& request) {
  const TensorType& update = request.inputs[1].type;
  auto strides = contiguous_strides(request.inputs[0].type.shape);
  auto to = slice_walk(request.attrs.as<SliceAttrs>(), strides);
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->start_from_first_input();
  kernel->move(1, size_of(update.dtype), 0, to,
               StridedCopy(size_of(update.dtype), update.shape, contiguous_strides(update.shape), strides));
  return kernel;
}

Made make_pad(const KernelRequest& request) {
  const auto& attrs = request.attrs.as<PadAttrs>();
  const TensorType& x = request.inputs[0].type;
  auto from_strides = contiguous_strides(x.shape), to_strides = contiguous_strides(request.outputs[0].shape);
  Shape kept;
  std::int64_t from = 0, to = 0;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    PadRange range = pad_range(attrs, i, x.shape[i]);
    kept.push_back(range.count());
    from += range.begin * from_strides[i];
    to += range.target(range.begin) * to_strides[i];
    to_strides[i] *= range.step;
  }
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->fill(x.dtype, attrs.value);
  if (numel(kept) > 0) {
    kernel->move(0, size_of(x.dtype), from, to, StridedCopy(size_of(x.dtype), kept, from_strides, to_strides));
  }
  return kernel;
}

Made make_concat(const KernelRequest& request) {
  const TensorType& out = request.outputs[0];
  auto axis = normalize_axis(request.attrs.as<ConcatAttrs>().axis, out.shape, "concat");
  auto strides = contiguous_strides(out.shape);
  auto kernel = std::make_unique<MoveKernel>(request);
  std::int64_t to = 0;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const Shape& shape = request.inputs[i].type.shape;
    kernel->move(i, size_of(out.dtype), 0, to,
                 StridedCopy(size_of(out.dtype), shape, contiguous_strides(shape), strides));
    to += shape[axis] * strides[axis];
  }
  return kernel;
}

}  // namespace

void register_shape_ref(KernelRegistry& kernels) {
  auto add = [&](const char* op, Made (*make)(const KernelRequest&)) {
    kernels.add(
        op, [make](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> { return make(request); });
  };
  add("reshape", make_reshape);
  add("transpose", make_transpose);
  add("broadcast", make_broadcast);
  add("reverse", make_reverse);
  add("slice", make_slice);
  add("slice_update", make_slice_update);
  add("pad", make_pad);
  add("concat", make_concat);
}

}  // namespace aspen
