// oneDNN chooses the layouts it likes; operands in another layout than ours pass through the workspace. Large
// convolutions are dealt out to the threads of the device in equal parts.
#include "aspen/ops/conv/conv_onednn.cpu.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/onednn.h"
#include "aspen/ops/conv/conv_finish.cpu.h"

namespace aspen {
namespace {

using onednn::any_layout;
using onednn::Desc;
using onednn::Dims;
using onednn::Primitive;

// One operand: how we hold it, how the primitive wants it, and the copy between the two if they differ.
struct Operand {
  int index = 0;
  Desc held, wanted;
  bool differs = false;
  Primitive reorder;

  Operand() = default;
  Operand(int index, const Desc& held, const Desc& wanted, bool is_result)
      : index(index), held(held), wanted(wanted), differs(held != wanted) {
    if (differs) reorder = is_result ? Primitive::reorder(wanted, held) : Primitive::reorder(held, wanted);
  }
};

struct Geometry {
  Dims x, w, y, strides, dilations, padding;
  DType operand = DType::kF32, result = DType::kF32;  // types: of the two operands, of the result and a bias
};

DType operand_type(ConvPass pass, const ConvTypes& types) {
  return pass == ConvPass::kInputGrad ? types.y.dtype : types.x.dtype;
}

DType result_type(ConvPass pass, const ConvTypes& types) {
  switch (pass) {
    case ConvPass::kInputGrad: return types.x.dtype;
    case ConvPass::kWeightGrad: return types.w.dtype;
    case ConvPass::kForward: break;
  }
  return types.y.dtype;
}

Geometry geometry_of(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types) {
  Geometry g;
  g.x = types.x.shape;
  g.y = types.y.shape;
  g.w = types.w.shape;
  if (attrs.groups > 1) {  // (groups, O / groups, C / groups, kernel...)
    g.w[0] /= attrs.groups;
    g.w.insert(g.w.begin(), attrs.groups);
  }
  g.strides = attrs.stride;
  g.padding = attrs.padding;
  g.operand = operand_type(pass, types);
  g.result = result_type(pass, types);
  for (std::int64_t d : attrs.dilation) g.dilations.push_back(d - 1);  // oneDNN counts the gaps
  return g;
}

// With a result of that type: gradients are told of a forward pass all in the type of their operands.
dnnl::convolution_forward::desc describe_forward(const Geometry& g, DType result, bool bias) {
  auto kind = dnnl::prop_kind::forward_training;
  auto algorithm = dnnl::algorithm::convolution_direct;
  Desc x = any_layout(g.x, g.operand), w = any_layout(g.w, g.operand), y = any_layout(g.y, result);
  if (!bias) return {kind, algorithm, x, w, y, g.strides, g.dilations, g.padding, g.padding};
  return {kind, algorithm, x, w, onednn::plain({g.y[1]}, result), y, g.strides, g.dilations, g.padding, g.padding};
}

struct NoImplementation {};

// Moves on from oneDNN's first choice. It reads the description again that `desc` was made from, which must still be
// there: oneDNN keeps no copy.
template <class PrimitiveDesc>
void choose_implementation(PrimitiveDesc& desc, int implementation) {
  for (int i = 0; i < implementation; ++i) {
    if (!desc.next_impl()) throw NoImplementation();
  }
  if (implementation > 0 && std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos) {
    throw NoImplementation();
  }
}

// A convolution or a gradient of it as a primitive, with what it takes to call it on memory in our layouts.
class ConvPrimitive {
 public:
  // `held_y` says how y is held, which is not dense when it is a part of the channels.
  ConvPrimitive(ConvPass pass, const Geometry& g, bool bias, const Desc& held_y, int implementation) {
    onednn::OneThread one_thread;
    const DType x_type = pass == ConvPass::kInputGrad ? g.result : g.operand;
    const DType w_type = pass == ConvPass::kWeightGrad ? g.result : g.operand;
    const auto forward_description = describe_forward(g, pass == ConvPass::kForward ? g.result : g.operand, bias);
    dnnl::convolution_forward::primitive_desc forward(forward_description, onednn::attributes(), onednn::engine());
    auto algorithm = dnnl::algorithm::convolution_direct;
    Desc x = any_layout(g.x, x_type), w = any_layout(g.w, w_type), y = any_layout(g.y, g.operand);
    Desc held_x = onednn::plain(g.x, x_type), held_w = onednn::plain(g.w, w_type);
    if (pass == ConvPass::kForward) {
      choose_implementation(forward, implementation);
      inputs_.emplace_back(DNNL_ARG_SRC, held_x, forward.src_desc(), false);
      inputs_.emplace_back(DNNL_ARG_WEIGHTS, held_w, forward.weights_desc(), false);
      Desc held_bias = onednn::plain({g.y[1]}, g.result);
      if (bias) inputs_.emplace_back(DNNL_ARG_BIAS, held_bias, held_bias, false);
      result_ = Operand(DNNL_ARG_DST, held_y, forward.dst_desc(), true);
      primitive_ = Primitive::of<dnnl::convolution_forward>(forward, parameters());
    } else if (pass == ConvPass::kInputGrad) {
      const dnnl::convolution_backward_data::desc description(algorithm, x, w, y, g.strides, g.dilations, g.padding,
                                                              g.padding);
      dnnl::convolution_backward_data::primitive_desc desc(description, onednn::attributes(), onednn::engine(),
                                                           forward);
      choose_implementation(desc, implementation);
      inputs_.emplace_back(DNNL_ARG_DIFF_DST, held_y, desc.diff_dst_desc(), false);
      inputs_.emplace_back(DNNL_ARG_WEIGHTS, held_w, desc.weights_desc(), false);
      result_ = Operand(DNNL_ARG_DIFF_SRC, held_x, desc.diff_src_desc(), true);
      primitive_ = Primitive::of<dnnl::convolution_backward_data>(desc, parameters());
    } else {
      const dnnl::convolution_backward_weights::desc description(algorithm, x, w, y, g.strides, g.dilations, g.padding,
                                                                 g.padding);
      dnnl::convolution_backward_weights::primitive_desc desc(description, onednn::attributes(), onednn::engine(),
                                                              forward);
      choose_implementation(desc, implementation);
      inputs_.emplace_back(DNNL_ARG_SRC, held_x, desc.src_desc(), false);
      inputs_.emplace_back(DNNL_ARG_DIFF_DST, held_y, desc.diff_dst_desc(), false);
      result_ = Operand(DNNL_ARG_DIFF_WEIGHTS, held_w, desc.diff_weights_desc(), true);
      primitive_ = Primitive::of<dnnl::convolution_backward_weights>(desc, parameters());
    }
    scratch_bytes_ = std::max(primitive_.scratch_bytes(), result_.reorder.scratch_bytes());
    for (const Operand& input : inputs_) scratch_bytes_ = std::max(scratch_bytes_, input.reorder.scratch_bytes());
  }

  std::size_t num_inputs() const { return inputs_.size(); }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // Bytes of the copy in the layout of the primitive; 0: ours will do.
  std::size_t copy_bytes(std::size_t input) const { return bytes_of_copy(inputs_[input]); }
  std::size_t result_copy_bytes() const { return bytes_of_copy(result_); }

  void reserve(std::size_t num_threads) const {
    for (const Operand& input : inputs_) input.reorder.reserve(num_threads);
    result_.reorder.reserve(num_threads);
    primitive_.reserve(num_threads);
  }

  void copy_input(std::size_t input, const void* held, void* copy, void* scratch) const {
    inputs_[input].reorder.run({held, copy}, scratch);
  }
  void copy_result(const void* copy, void* held, void* scratch) const { result_.reorder.run({copy, held}, scratch); }
  const Desc& result_layout() const { return result_.wanted; }
  // Operands in the layouts of the primitive.
  void run(const void* const* inputs, void* result, void* scratch) const {
    if (inputs_.size() == 3) {
      primitive_.run({inputs[0], inputs[1], inputs[2], result}, scratch);
    } else {
      primitive_.run({inputs[0], inputs[1], result}, scratch);
    }
  }

 private:
  std::vector<onednn::Parameter> parameters() const {
    std::vector<onednn::Parameter> result;
    for (const Operand& input : inputs_) result.push_back({input.index, input.wanted});
    result.push_back({result_.index, result_.wanted});
    return result;
  }
  static std::size_t bytes_of_copy(const Operand& operand) { return operand.differs ? operand.wanted.get_size() : 0; }

  std::vector<Operand> inputs_;
  Operand result_;
  Primitive primitive_;
  std::size_t scratch_bytes_ = 0;
};

// A layout of oneDNN as blocks of channels, if it is such a one and our loops take it.
std::optional<BlockedImages> as_blocked(const Desc& desc, std::int64_t plain_image_step) {
  const dnnl_memory_desc_t& data = desc.data;
  if (data.format_kind != dnnl_blocked || data.offset0 != 0) return std::nullopt;
  const auto& [strides, num_blocks, blocks, indices] = data.format_desc.blocking;
  const int last = data.ndims - 1;
  BlockedImages s{.images = data.dims[0], .channels = data.dims[1], .pixels = 1, .plain_image_step = plain_image_step};
  if (num_blocks == 1 && indices[0] == 1) {
    s.block = blocks[0];
  } else if (num_blocks == 0 && strides[1] == 1) {
    s.block = s.channels;
  } else {
    return std::nullopt;
  }
  s.image_step = strides[0];
  s.block_step = strides[1];
  s.pixel_step = strides[last];
  for (int i = last; i > 1; --i) {
    if (strides[i] != s.pixel_step * s.pixels) return std::nullopt;
    s.pixels *= data.dims[i];
  }
  s.plane_step = s.pixels;
  return can_unblock(s.block, s.channels) ? std::optional(s) : std::nullopt;
}

// How a convolution is dealt out to threads, in equal parts so that one primitive serves them all: parts of the images,
// or of the channels of y.
struct ConvParts {
  std::int64_t count = 1;
  bool of_images = true;
};

// The largest number of equal parts worth having; a number of items without small divisors stays whole.
std::int64_t equal_parts(std::int64_t items, double cost, std::int64_t most) {
  std::int64_t parts = std::clamp(static_cast<std::int64_t>(cost / kLeastOfMany), std::int64_t{1}, most);
  while (items % parts != 0) --parts;
  return parts;
}

// Parts of the images each read all weights, and each add a whole gradient to that by the weights. Where weights
// outweigh the images, as in the last layers of a network, or images are few, parts of the channels read all images
// instead; not for the gradient by the input, which takes oneDNN a third longer that way (8 images of 512 x 7 x 7, 3 x
// 3: 11.5 ms, 15 ms).
ConvParts parts_of(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types) {
  constexpr std::int64_t kBlock = 64, kLeastBlock = 32;  // channels for which reading all images pays
  constexpr std::int64_t kFewImages = 4, kVector = 16;
  bool sums = pass == ConvPass::kWeightGrad;
  std::int64_t pixels = types.x.numel() + types.y.numel(), channels = types.y.shape[1];
  std::int64_t taps = types.w.numel() / types.w.shape[0];  // weights of one channel of the result
  double cost =
      kMultiplyAddCost * static_cast<double>(types.y.numel() * taps) + kMoveCost * static_cast<double>(pixels);
  // Each part adds a whole gradient: not more than 7 parts, or one for every 8 images.
  std::int64_t num_images = types.x.shape[0];
  std::int64_t most = sums ? std::clamp<std::int64_t>(num_images / 8, 7, kMostChunks) : kMostChunks;
  ConvParts images{equal_parts(num_images, cost, most), true};
  if (pass == ConvPass::kInputGrad || attrs.groups > 1) return images;
  auto of_channels = [&](std::int64_t block) {
    return ConvParts{channels % block == 0 ? equal_parts(channels / block, cost, kMostChunks) : 1, false};
  };
  if ((sums ? images.count : 1) * types.w.numel() > pixels) {
    ConvParts parts = of_channels(kBlock);
    if (parts.count > 1 || sums) return parts;
  }
  if (images.count >= kFewImages) return images;
  ConvParts parts = of_channels(kLeastBlock);
  if (parts.count == 1 && types.x.shape[1] < kVector) parts = of_channels(kVector);  // little is read: as it lies
  return parts.count > images.count ? parts : images;
}

ConvTypes types_of_part(ConvTypes types, const ConvParts& parts) {
  if (parts.of_images) {
    types.x.shape[0] /= parts.count;
    types.y.shape[0] /= parts.count;
  } else {
    types.y.shape[1] /= parts.count;
    types.w.shape[0] /= parts.count;
  }
  return types;
}

class OneDnnConv final : public Kernel {
 public:
  OneDnnConv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types, const ConvFinish& finish,
             int implementation)
      : parts_(parts_of(pass, attrs, types)), part_types_(types_of_part(types, parts_)),
        conv_(pass, geometry_of(pass, attrs, part_types_), types.bias,
              onednn::strided(part_types_.y.shape, contiguous_strides(types.y.shape), types.y.dtype), implementation),
        element_(static_cast<std::int64_t>(size_of(operand_type(pass, types)))),
        result_element_(static_cast<std::int64_t>(size_of(result_type(pass, types)))),
        adds_up_(pass == ConvPass::kWeightGrad && parts_.of_images) {
    if (pass == ConvPass::kForward && types.y.dtype == DType::kF32 && conv_.result_copy_bytes() > 0) {
      blocked_ = as_blocked(conv_.result_layout(), contiguous_strides(types.y.shape)[0]);
    }
    if (blocked_) finish_ = finish;
    std::int64_t x = part_types_.x.numel(), y = part_types_.y.numel(), w = part_types_.w.numel();
    std::int64_t y_channels = y / part_types_.y.shape[0];
    switch (pass) {
      case ConvPass::kForward:
        steps_ = parts_.of_images ? Steps{{x, 0}, y, 0} : Steps{{0, w}, y_channels, part_types_.y.shape[1]};
        break;
      case ConvPass::kInputGrad: steps_ = {{y, 0}, x, 0}; break;
      case ConvPass::kWeightGrad: steps_ = parts_.of_images ? Steps{{x, y}, 0, 0} : Steps{{0, y_channels}, w, 0}; break;
    }
    onednn::Workspace count;
    plan(count);
    workspace_bytes_ = count.used();
  }

  // Whether run() does what conv_affine does after the convolution.
  bool does_finish() const { return blocked_.has_value(); }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void reserve(std::size_t num_threads) const override { conv_.reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    onednn::Workspace workspace(args.workspace);
    Memory memory = plan(workspace);
    for (std::size_t i = 0; i < 2; ++i) {
      if (is_shared(i) && conv_.copy_bytes(i) > 0) {
        conv_.copy_input(i, args.inputs[i], memory.shared[i], memory.slots);
      }
    }
    for_each_chunk(args, Chunks(parts_.count, 1), [&](const Chunk& chunk) {
      run_part(args, chunk.index, memory, memory.slots + static_cast<std::size_t>(slot_of(args)) * memory.slot_bytes);
    });
    if (adds_up_) {
      add_parts(args, static_cast<float*>(args.outputs[0]), memory.sums, part_types_.w.numel(), parts_.count - 1);
    }
  }

 private:
  struct Memory {
    void* shared[2];   // inputs that every part reads whole, in the layout of the primitive
    float* sums;       // gradients of the parts after the first
    std::byte* slots;  // one for each part, at most
    std::size_t slot_bytes;
  };
  // Elements from part to part.
  struct Steps {
    std::int64_t inputs[2] = {0, 0}, result = 0, bias = 0;
  };
  struct PartMemory {
    void *inputs[2], *result, *scratch;
  };

  Memory plan(onednn::Workspace& workspace) const {
    Memory memory{};
    for (std::size_t i = 0; i < 2; ++i) memory.shared[i] = workspace.take(is_shared(i) ? conv_.copy_bytes(i) : 0);
    auto others = static_cast<std::size_t>(adds_up_ ? parts_.count - 1 : 0);
    memory.sums = workspace.take<float>(others * part_types_.w.bytes());
    onednn::Workspace part;
    plan_part(part);
    memory.slot_bytes = part.used();
    memory.slots = workspace.take<std::byte>(static_cast<std::size_t>(parts_.count) * memory.slot_bytes);
    return memory;
  }
  PartMemory plan_part(onednn::Workspace& workspace) const {
    PartMemory own{};
    for (std::size_t i = 0; i < 2; ++i) own.inputs[i] = workspace.take(is_shared(i) ? 0 : conv_.copy_bytes(i));
    own.result = workspace.take(conv_.result_copy_bytes());
    own.scratch = workspace.take(conv_.scratch_bytes());
    return own;
  }

  bool is_shared(std::size_t input) const { return steps_.inputs[input] == 0; }

  void run_part(const KernelArgs& args, std::int64_t part, const Memory& memory, std::byte* slot) const {
    onednn::Workspace workspace(slot);
    PartMemory own = plan_part(workspace);
    auto input = [&](std::size_t i, std::int64_t step, std::int64_t element) {
      return static_cast<const std::byte*>(args.inputs[i]) + part * step * element;
    };
    const void* inputs[3] = {input(0, steps_.inputs[0], element_), input(1, steps_.inputs[1], element_),
                             conv_.num_inputs() > 2 ? input(2, steps_.bias, result_element_) : nullptr};
    for (std::size_t i = 0; i < 2; ++i) {
      if (conv_.copy_bytes(i) == 0) continue;
      if (!is_shared(i)) conv_.copy_input(i, inputs[i], own.inputs[i], own.scratch);
      inputs[i] = is_shared(i) ? memory.shared[i] : own.inputs[i];
    }
    void* result = static_cast<std::byte*>(args.outputs[0]) + part * steps_.result * result_element_;
    if (adds_up_ && part > 0) result = memory.sums + (part - 1) * part_types_.w.numel();
    if (conv_.result_copy_bytes() == 0) return conv_.run(inputs, result, own.scratch);
    conv_.run(inputs, own.result, own.scratch);
    if (!blocked_) return conv_.copy_result(own.result, result, own.scratch);
    std::optional<Epilogue> epilogue = finish_.epilogue(args);
    if (epilogue) epilogue = epilogue->from(part * steps_.bias, part * steps_.result);
    unblock_images(*blocked_, static_cast<const float*>(own.result), static_cast<float*>(result),
                   epilogue ? &*epilogue : nullptr);
  }

  ConvParts parts_;
  ConvTypes part_types_;
  ConvPrimitive conv_;
  std::int64_t element_, result_element_;  // bytes: of operands, of the result and a bias
  bool adds_up_;                           // the result is the sum over the parts
  std::optional<BlockedImages> blocked_;
  ConvFinish finish_;
  Steps steps_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_onednn_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types,
                                         const ConvFinish& finish, int implementation) {
  try {
    auto kernel = std::make_unique<OneDnnConv>(pass, attrs, types, finish, implementation);
    return kernel->does_finish() ? std::move(kernel) : with_finish(std::move(kernel), types, finish);
  } catch (const NoImplementation&) {
    return nullptr;
  }
}

}  // namespace aspen
