// Each piece of a gradient updates its part of the weight while it is in the cache: by the loops of sgd and adam, with
// products by the kernels of dot. Where such a kernel makes all at once, the gradient lies in the workspace.
#include "aspen/backends/api/candidates.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/dot/dot_candidates.cpu.h"
#include "aspen/ops/index/row_sums.cpu.h"
#include "aspen/ops/optimizer/optimizer_pieces.cpu.h"

namespace aspen {
namespace {

constexpr UpdatePorts kPorts{.w = 0, .settings = 3, .step = 4};

// A gradient that a kernel makes as a whole.
class WholeGradient final : public GradientPieces {
 public:
  WholeGradient(std::unique_ptr<Kernel> kernel, const TensorType& type)
      : kernel_(std::move(kernel)), bytes_((type.bytes() + 63) / 64 * 64),
        chunks_(cut_elements(type.numel(), kMoveCost)) {}

  std::size_t workspace_bytes() const override { return bytes_ + kernel_->workspace_bytes(); }
  void reserve(std::size_t num_threads) const override { kernel_->reserve(num_threads); }

  void run(const KernelArgs& args, const Take& take) const override {
    auto* memory = static_cast<std::byte*>(args.workspace);
    void* outputs[] = {memory};
    kernel_->run({.inputs = args.inputs, .outputs = outputs, .workspace = memory + bytes_, .step = args.step});
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      take({chunk.begin, chunk.size(), reinterpret_cast<const float*>(memory) + chunk.begin});
    });
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::size_t bytes_;
  Chunks chunks_;
};

template <class Attributes, class Update>
class PiecewiseKernel final : public Kernel {
 public:
  PiecewiseKernel(const KernelRequest& request, std::unique_ptr<GradientPieces> pieces)
      : attrs_(request.attrs.as<Attributes>()), numel_(request.outputs[0].numel()), pieces_(std::move(pieces)) {}

  std::size_t workspace_bytes() const override { return pieces_->workspace_bytes(); }
  void reserve(std::size_t num_threads) const override { pieces_->reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    const Update update(attrs_, args, kPorts, numel_);
    const KernelArgs operands{.inputs = args.inputs.subspan(1, 2), .workspace = args.workspace, .step = args.step};
    pieces_->run(operands, std::ref(update));
  }

 private:
  Attributes attrs_;
  std::int64_t numel_;
  std::unique_ptr<GradientPieces> pieces_;
};

using SgdKernel = PiecewiseKernel<SgdAttrs, PiecewiseSgd>;
using AdamKernel = PiecewiseKernel<AdamAttrs, PiecewiseAdam>;

// The product whose gradient it is.
KernelRequest product_of(const KernelRequest& request) {
  return {.op = "dot",
          .attrs = Attrs::of(DotAttrs{.transpose_a = true}),
          .inputs = {request.inputs[1], request.inputs[2]},
          .outputs = {request.outputs[0]},
          .candidate = request.candidate};
}

template <class UpdateKernel>
Candidate with_update(const Candidate& product) {
  return {.name = product.name,
          .judge = [product](const KernelRequest& request) { return product.judge(product_of(request)); },
          .make = [product](const KernelRequest& request, std::string& why) -> std::unique_ptr<Kernel> {
            const KernelRequest dot = product_of(request);
            auto pieces = dot_in_pieces(product.name, dot);
            if (pieces == nullptr) {
              auto kernel = product.make(dot, why);
              if (kernel == nullptr) return nullptr;
              pieces = std::make_unique<WholeGradient>(std::move(kernel), dot.outputs[0]);
            }
            return std::make_unique<UpdateKernel>(request, std::move(pieces));
          }};
}

template <class UpdateKernel>
void register_dot_update(KernelRegistry& kernels, const char* op) {
  std::vector<Candidate> candidates;
  for (const Candidate& product : dot_candidates()) candidates.push_back(with_update<UpdateKernel>(product));
  auto list = std::make_shared<const CandidateList>(
      [](const KernelRequest& request) { return unsuited_for_dot(product_of(request)); }, std::move(candidates),
      product_of);
  kernels.set_candidates(op, list);
  kernels.add(op, first_of(list));
}

template <class UpdateKernel>
std::unique_ptr<Kernel> make_rows_update(const KernelRequest& request, std::string&) {
  return std::make_unique<UpdateKernel>(request,
                                        make_row_sums(request.inputs[0].type.shape, request.inputs[1].type.shape));
}

}  // namespace

void register_weight_update_cpu(KernelRegistry& kernels) {
  register_dot_update<SgdKernel>(kernels, "dot_sgd");
  register_dot_update<AdamKernel>(kernels, "dot_adam");
  kernels.add("rows_sgd", make_rows_update<SgdKernel>);
  kernels.add("rows_adam", make_rows_update<AdamKernel>);
}

}  // namespace aspen
