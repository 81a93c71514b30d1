// oneDNN chooses the layouts it likes; operands in another layout than ours pass through the workspace.
#include "aspen/ops/conv/conv_onednn.cpu.h"

#include "aspen/backends/cpu/onednn.h"

namespace aspen {
namespace {

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
};

Geometry geometry_of(const ConvAttrs& attrs, const ConvTypes& types) {
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
  for (std::int64_t d : attrs.dilation) g.dilations.push_back(d - 1);  // oneDNN counts the gaps
  return g;
}

dnnl::convolution_forward::primitive_desc forward_desc(const Geometry& g, bool bias) {
  auto kind = dnnl::prop_kind::forward_training;
  auto algorithm = dnnl::algorithm::convolution_direct;
  Desc x = onednn::any_layout(g.x), w = onednn::any_layout(g.w), y = onednn::any_layout(g.y);
  using Description = dnnl::convolution_forward::desc;
  Description description = bias ? Description(kind, algorithm, x, w, onednn::plain({g.y[1]}), y, g.strides,
                                               g.dilations, g.padding, g.padding)
                                 : Description(kind, algorithm, x, w, y, g.strides, g.dilations, g.padding, g.padding);
  return {description, onednn::attributes(), onednn::engine()};
}

class OneDnnConv final : public Kernel {
 public:
  OneDnnConv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types) {
    onednn::OneThread one_thread;
    Geometry g = geometry_of(attrs, types);
    auto forward = forward_desc(g, types.bias);
    auto algorithm = dnnl::algorithm::convolution_direct;
    Desc x = onednn::any_layout(g.x), w = onednn::any_layout(g.w), y = onednn::any_layout(g.y);
    Desc held_x = onednn::plain(g.x), held_w = onednn::plain(g.w), held_y = onednn::plain(g.y);
    if (pass == ConvPass::kForward) {
      inputs_.emplace_back(DNNL_ARG_SRC, held_x, forward.src_desc(), false);
      inputs_.emplace_back(DNNL_ARG_WEIGHTS, held_w, forward.weights_desc(), false);
      Desc bias = onednn::plain({g.y[1]});
      if (types.bias) inputs_.emplace_back(DNNL_ARG_BIAS, bias, bias, false);
      result_ = Operand(DNNL_ARG_DST, held_y, forward.dst_desc(), true);
      primitive_ = Primitive::of<dnnl::convolution_forward>(forward);
    } else if (pass == ConvPass::kInputGrad) {
      dnnl::convolution_backward_data::primitive_desc desc(
          {algorithm, x, w, y, g.strides, g.dilations, g.padding, g.padding}, onednn::attributes(), onednn::engine(),
          forward);
      inputs_.emplace_back(DNNL_ARG_DIFF_DST, held_y, desc.diff_dst_desc(), false);
      inputs_.emplace_back(DNNL_ARG_WEIGHTS, held_w, desc.weights_desc(), false);
      result_ = Operand(DNNL_ARG_DIFF_SRC, held_x, desc.diff_src_desc(), true);
      primitive_ = Primitive::of<dnnl::convolution_backward_data>(desc);
    } else {
      dnnl::convolution_backward_weights::primitive_desc desc(
          {algorithm, x, w, y, g.strides, g.dilations, g.padding, g.padding}, onednn::attributes(), onednn::engine(),
          forward);
      inputs_.emplace_back(DNNL_ARG_SRC, held_x, desc.src_desc(), false);
      inputs_.emplace_back(DNNL_ARG_DIFF_DST, held_y, desc.diff_dst_desc(), false);
      result_ = Operand(DNNL_ARG_DIFF_WEIGHTS, held_w, desc.diff_weights_desc(), true);
      primitive_ = Primitive::of<dnnl::convolution_backward_weights>(desc);
    }
    onednn::Workspace count;
    bind(count, nullptr, nullptr);
    workspace_bytes_ = count.used();
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& args) const override {
    onednn::Workspace workspace(args.workspace);
    Bound bound = bind(workspace, args.inputs.data(), args.outputs[0]);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& operand = inputs_[i];
      if (!operand.differs) continue;
      operand.reorder.run({{DNNL_ARG_FROM, operand.held, const_cast<void*>(args.inputs[i])},
                           {DNNL_ARG_TO, operand.wanted, bound.inputs[i]}},
                          bound.scratch);
    }
    onednn::Argument result{result_.index, result_.wanted, bound.result};
    onednn::Argument first{inputs_[0].index, inputs_[0].wanted, bound.inputs[0]};
    onednn::Argument second{inputs_[1].index, inputs_[1].wanted, bound.inputs[1]};
    if (inputs_.size() == 3) {
      primitive_.run({first, second, {inputs_[2].index, inputs_[2].wanted, bound.inputs[2]}, result}, bound.scratch);
    } else {
      primitive_.run({first, second, result}, bound.scratch);
    }
    if (result_.differs) {
      result_.reorder.run({{DNNL_ARG_FROM, result_.wanted, bound.result}, {DNNL_ARG_TO, result_.held, args.outputs[0]}},
                          bound.scratch);
    }
  }

 private:
  struct Bound {
    void* inputs[3] = {};
    void* result = nullptr;
    void* scratch = nullptr;
  };

  // Where each operand of the primitive lives: with us, or in the workspace.
  Bound bind(onednn::Workspace& workspace, const void* const* inputs, void* output) const {
    Bound bound;
    std::size_t scratch = primitive_.scratch_bytes();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].differs) {
        bound.inputs[i] = workspace.take(inputs_[i].wanted.get_size());
        scratch = std::max(scratch, inputs_[i].reorder.scratch_bytes());
      } else if (inputs != nullptr) {
        bound.inputs[i] = const_cast<void*>(inputs[i]);
      }
    }
    bound.result = result_.differs ? workspace.take(result_.wanted.get_size()) : output;
    if (result_.differs) scratch = std::max(scratch, result_.reorder.scratch_bytes());
    bound.scratch = workspace.take(scratch);
    return bound;
  }

  std::vector<Operand> inputs_;
  Operand result_;
  Primitive primitive_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_onednn_conv(ConvPass pass, const ConvAttrs& attrs, const ConvTypes& types) {
  return std::make_unique<OneDnnConv>(pass, attrs, types);
}

}  // namespace aspen
