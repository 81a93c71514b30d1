// Products of matrices: our own loops for small ones, oneDNN matmul for the rest.
#include "aspen/ops/dot/dot.h"

#include "aspen/backends/api/kernel.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/onednn.h"

namespace aspen {
namespace {

// (batch, m, k) x (batch, k, n), each operand possibly stored transposed.
struct DotShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

DotShape shape_of(const KernelRequest& request) {
  const Shape& a = request.inputs[0].type.shape;
  const Shape& c = request.outputs[0].shape;
  const auto& attrs = request.attrs.as<DotAttrs>();
  DotShape s;
  std::size_t rank = c.size();
  for (std::size_t i = 0; i + 2 < rank; ++i) s.batch *= c[i];
  s.m = c[rank - 2];
  s.n = c[rank - 1];
  s.k = attrs.transpose_a ? a[rank - 2] : a[rank - 1];
  s.transpose_a = attrs.transpose_a;
  s.transpose_b = attrs.transpose_b;
  return s;
}

class SmallDot final : public Kernel {
 public:
  explicit SmallDot(const DotShape& s) : s_(s) {
    gemm_ = {s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, s.transpose_b ? s.k : s.n, s.n};
  }
  void run(const KernelArgs& args) const override {
    auto* a = static_cast<const float*>(args.inputs[0]);
    auto* b = static_cast<const float*>(args.inputs[1]);
    auto* c = static_cast<float*>(args.outputs[0]);
    for (std::int64_t i = 0; i < s_.batch; ++i, a += s_.m * s_.k, b += s_.k * s_.n, c += s_.m * s_.n) {
      s_.transpose_b ? gemm_columns(gemm_, a, b, c) : gemm_rows(gemm_, a, b, c);
    }
  }

 private:
  DotShape s_;
  GemmShape gemm_;
};

class OneDnnDot final : public Kernel {
 public:
  explicit OneDnnDot(const DotShape& s) {
    onednn::Dims a{s.batch, s.m, s.k}, b{s.batch, s.k, s.n}, c{s.batch, s.m, s.n};
    a_ = onednn::strided(a, s.transpose_a ? onednn::Dims{s.m * s.k, 1, s.m} : onednn::Dims{s.m * s.k, s.k, 1});
    b_ = onednn::strided(b, s.transpose_b ? onednn::Dims{s.n * s.k, 1, s.k} : onednn::Dims{s.n * s.k, s.n, 1});
    c_ = onednn::plain(c);
    if (s.batch == 1) {  // two dimensions reach kernels that three do not
      a_ = a_.reshape({s.m, s.k});
      b_ = b_.reshape({s.k, s.n});
      c_ = c_.reshape({s.m, s.n});
    }
    onednn::OneThread one_thread;
    dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a_, b_, c_), onednn::attributes(), onednn::engine());
    matmul_ = onednn::Primitive::of<dnnl::matmul>(desc);
  }
  std::size_t workspace_bytes() const override { return matmul_.scratch_bytes(); }
  void run(const KernelArgs& args) const override {
    matmul_.run({{DNNL_ARG_SRC, a_, const_cast<void*>(args.inputs[0])},
                 {DNNL_ARG_WEIGHTS, b_, const_cast<void*>(args.inputs[1])},
                 {DNNL_ARG_DST, c_, args.outputs[0]}},
                args.workspace);
  }

 private:
  onednn::Desc a_, b_, c_;
  onednn::Primitive matmul_;
};

// Where our loops win, measured on one core with AVX-512 (microseconds, ours / oneDNN): b as stored, 16x972x100 20/21,
// 16x100x10 0.2/1.7, 64^3 3.0/4.4, 128^3 29/29, 256^3 249/198; b transposed, 16x100x972 27/36, 8x1000x512 71/143,
// 32^3 1.4/1.9, 64^3 7.2/4.9. Both transposed: oneDNN.
bool is_small(const DotShape& s) {
  if (s.transpose_a && s.transpose_b) return false;
  if (s.transpose_b) return !s.transpose_a && (s.m <= 16 || s.m * s.n * s.k <= 40 * 40 * 40);
  return s.m <= 16 || s.k <= 16 || s.m * s.n * s.k <= 128 * 128 * 128;
}

std::unique_ptr<Kernel> make_dot(const KernelRequest& request, std::string& why) {
  if (request.outputs[0].dtype != DType::kF32) {
    why = "dot: the tuned kernels take f32";
    return nullptr;
  }
  DotShape s = shape_of(request);
  if (s.batch * s.m * s.n * s.k == 0) {
    why = "dot: an empty operand";
    return nullptr;
  }
  if (is_small(s)) return std::make_unique<SmallDot>(s);
  return std::make_unique<OneDnnDot>(s);
}

}  // namespace

void register_dot_cpu(KernelRegistry& kernels) { kernels.add("dot", make_dot); }

}  // namespace aspen
