// Every op here is one kernel: fill the output, or take over an input, then run a list of strided copies planned
// when the kernel is made. Elements are bytes of a given size, so nothing is compiled per element type.
#include "aspen/ops/shape/shape.h"

#include <cstring>

#include "aspen/backends/api/convert.h"
#include "aspen/backends/api/kernel.h"
#include "aspen/backends/reference/strided_copy.h"
#include "aspen/ops/shape/moves.ref.h"

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

  void move(std::size_t input, std::size_t element_size, const Move& m) {
    if (numel(m.shape) == 0) return;
    auto size = static_cast<std::int64_t>(element_size);
    moves_.push_back(
        {input, m.from * size, m.to * size, StridedCopy(element_size, m.shape, m.from_strides, m.to_strides)});
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
  struct BytesMove {
    std::size_t input;
    std::int64_t from, to;
    StridedCopy copy;
  };
  std::size_t bytes_;
  std::vector<std::byte> fill_;
  bool copy_first_ = false;
  std::vector<BytesMove> moves_;
};

using Made = std::unique_ptr<MoveKernel>;

Made make_reshape(const KernelRequest& request) {
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->start_from_first_input();
  return kernel;
}

// One copy writes the whole output.
template <Move (*make_move)(const KernelRequest&)>
Made make_view(const KernelRequest& request) {
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->move(0, size_of(request.outputs[0].dtype), make_move(request));
  return kernel;
}

Made make_slice_update(const KernelRequest& request) {
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->start_from_first_input();
  kernel->move(1, size_of(request.outputs[0].dtype), slice_update_move(request));
  return kernel;
}

Made make_pad(const KernelRequest& request) {
  DType dtype = request.outputs[0].dtype;
  auto kernel = std::make_unique<MoveKernel>(request);
  kernel->fill(dtype, request.attrs.as<PadAttrs>().value);
  kernel->move(0, size_of(dtype), pad_move(request));
  return kernel;
}

Made make_concat(const KernelRequest& request) {
  auto kernel = std::make_unique<MoveKernel>(request);
  std::vector<Move> moves = concat_moves(request);
  for (std::size_t i = 0; i < moves.size(); ++i) kernel->move(i, size_of(request.outputs[0].dtype), moves[i]);
  return kernel;
}

}  // namespace

void register_shape_ref(KernelRegistry& kernels) {
  auto add = [&](const char* op, Made (*make)(const KernelRequest&)) {
    kernels.add(
        op, [make](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> { return make(request); });
  };
  add("reshape", make_reshape);
  add("transpose", make_view<transpose_move>);
  add("broadcast", make_view<broadcast_move>);
  add("reverse", make_view<reverse_move>);
  add("slice", make_view<slice_move>);
  add("slice_update", make_slice_update);
  add("pad", make_pad);
  add("concat", make_concat);
}

}  // namespace aspen
