// Products of matrices: our own loops for vectors, for small matrices, for those that oneDNN could share between few
// threads only and, with AVX-512, for weights that are stored transposed; oneDNN matmul for the rest, and for bfloat16
// where the CPU multiplies it.
#include <algorithm>
#include <cstring>

#include "aspen/backends/api/candidates.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/gemm.h"
#include "aspen/backends/cpu/isa.h"
#include "aspen/backends/cpu/onednn.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/dot/dot_candidates.cpu.h"
#include "aspen/ops/dot/dot_partials.ref.h"
#include "aspen/ops/dot/dot_shape.cpu.h"
#include "aspen/ops/dot/dot_turned.cpu.h"
#include "aspen/ops/dot/dot_vector.cpu.h"

namespace aspen {
namespace {

constexpr std::int64_t kFewRows = 48, kCachedWeights = 1 << 20;

// What is dealt out to threads: products of a batch, or of a single product rows or columns of the result, or summands.
enum class CutAxis { kBatch, kRows, kColumns, kSummands };

// Rows or columns, whichever are more, so that the operand every thread reads is the smaller one.
CutAxis longer_axis(const DotShape& s) {
  if (s.batch > 1) return CutAxis::kBatch;
  return s.m >= s.n ? CutAxis::kRows : CutAxis::kColumns;
}

// The axis that cuts the largest of the three matrices into contiguous parts. Updates of weights, and whoever else goes
// through its elements in order, cut it likewise, and a thread finds in its cache what it has written there: what
// cores fetch from each other takes longer than a small product. Summands only where their sums are few.
CutAxis contiguous_axis(const DotShape& s) {
  if (s.batch > 1) return CutAxis::kBatch;
  if (s.m >= s.k && s.n >= s.k) return s.m >= kFewRows ? CutAxis::kRows : CutAxis::kColumns;
  if (s.m >= s.k || s.m >= s.n) return CutAxis::kRows;
  return s.transpose_b || s.k < 4 * s.m ? CutAxis::kColumns : CutAxis::kSummands;
}

// Whole blocks of the loops, and enough of them.
Grain grain_of(CutAxis axis, const DotShape& s) {
  if (axis == CutAxis::kSummands) return {.least = std::max<std::int64_t>({32, 2 * s.m, s.k / kFewChunks})};
  return axis == CutAxis::kColumns && !s.transpose_b ? Grain{.multiple = 16, .least = 128}
                                                     : Grain{.multiple = 6, .least = 48};
}

// How one chunk of a product lies in the whole: its shape, and how far operands move per item of the axis that is cut.
class DotChunks {
 public:
  // `cost` in nanoseconds per multiply-add; the grain is that of a single product.
  DotChunks(const DotShape& s, CutAxis axis, double cost, Grain grain)
      : s_(s), axis_(axis), element_(static_cast<std::int64_t>(size_of(s.type))),
        result_element_(static_cast<std::int64_t>(size_of(s.result))) {
    double total = cost * static_cast<double>(s.products());
    switch (axis_) {
      case CutAxis::kBatch:
        chunks_ = cut(s.batch, total);
        a_step_ = s.m * s.k, b_step_ = s.k * s.n, c_step_ = s.m * s.n;
        break;
      case CutAxis::kRows:
        chunks_ = cut(s.m, total, grain);
        a_step_ = s.transpose_a ? 1 : s.k, c_step_ = s.n;
        break;
      case CutAxis::kColumns:
        chunks_ = cut(s.n, total, grain);
        b_step_ = s.transpose_b ? s.k : 1, c_step_ = 1;
        break;
      case CutAxis::kSummands:
        chunks_ = cut(s.k, total, grain);
        a_step_ = s.transpose_a ? s.m : 1, b_step_ = s.transpose_b ? 1 : s.n;
        break;
    }
  }

  CutAxis axis() const { return axis_; }
  std::int64_t count() const { return chunks_.count(); }
  std::int64_t last_size() const { return chunks_[count() - 1].size(); }
  bool has_shorter_last() const { return last_size() != chunks_.size(); }
  DotShape shape() const { return shape_of(chunks_.size()); }
  DotShape last_shape() const { return shape_of(last_size()); }

  // Calls work(chunk, a, b, c) with the operands of each chunk.
  template <class F>
  void for_each(const KernelArgs& args, F&& work) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      const std::int64_t bytes = chunk.begin * element_;
      work(chunk, static_cast<const std::byte*>(args.inputs[0]) + a_step_ * bytes,
           static_cast<const std::byte*>(args.inputs[1]) + b_step_ * bytes,
           static_cast<std::byte*>(args.outputs[0]) + c_step_ * chunk.begin * result_element_);
    });
  }

 private:
  DotShape shape_of(std::int64_t size) const {
    DotShape part = s_;
    switch (axis_) {
      case CutAxis::kBatch: part.batch = size; break;
      case CutAxis::kRows: part.m = size; break;
      case CutAxis::kColumns: part.n = size; break;
      case CutAxis::kSummands: part.k = size; break;
    }
    return part;
  }

  DotShape s_;
  CutAxis axis_;
  std::int64_t element_, result_element_;  // bytes
  Chunks chunks_;
  std::int64_t a_step_ = 0, b_step_ = 0, c_step_ = 0;
};

// Sums of parts of the summands meet in their order.
class OwnDot final : public Kernel {
 public:
  OwnDot(const DotShape& s, CutAxis axis, Grain grain) : s_(s), chunks_(s, axis, kMultiplyAddCost, grain) {
    gemm_ = {s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, s.transpose_b ? s.k : s.n, s.n};
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(num_sums() * s_.m * s_.n) * sizeof(float);
  }

  void run(const KernelArgs& args) const override {
    auto *result = static_cast<float*>(args.outputs[0]), *sums = static_cast<float*>(args.workspace);
    chunks_.for_each(
        args, [&](const Chunk& chunk, const std::byte* a_bytes, const std::byte* b_bytes, std::byte* c_bytes) {
          auto *a = reinterpret_cast<const float*>(a_bytes), *b = reinterpret_cast<const float*>(b_bytes);
          auto* c = reinterpret_cast<float*>(c_bytes);
          if (num_sums() > 0 && chunk.index > 0) c = sums + (chunk.index - 1) * s_.m * s_.n;
          DotShape part = chunk.index + 1 < chunks_.count() ? chunks_.shape() : chunks_.last_shape();
          GemmShape gemm = gemm_;
          gemm.m = part.m;
          gemm.n = part.n;
          gemm.k = part.k;
          for (std::int64_t i = 0; i < part.batch; ++i, a += s_.m * s_.k, b += s_.k * s_.n, c += s_.m * s_.n) {
            s_.transpose_b ? gemm_columns(gemm, a, b, c) : gemm_rows(gemm, a, b, c);
          }
        });
    if (num_sums() > 0) add_parts(args, result, sums, s_.m * s_.n, num_sums());
  }

 private:
  std::int64_t num_sums() const { return chunks_.axis() == CutAxis::kSummands ? chunks_.count() - 1 : 0; }

  DotShape s_;
  DotChunks chunks_;
  GemmShape gemm_;
};

// One chunk as a primitive: the shape of the chunk, the strides of the whole; the result may be dense instead.
struct OneDnnProduct {
  onednn::Primitive matmul;
  std::size_t result_bytes = 0;

  OneDnnProduct() = default;
  OneDnnProduct(const DotShape& whole, const DotShape& s, bool dense) {
    const DotShape& w = whole;
    onednn::Dims a_strides = s.transpose_a ? onednn::Dims{w.m * w.k, 1, w.m} : onednn::Dims{w.m * w.k, w.k, 1};
    onednn::Dims b_strides = s.transpose_b ? onednn::Dims{w.n * w.k, 1, w.k} : onednn::Dims{w.n * w.k, w.n, 1};
    onednn::Dims a_dims{s.batch, s.m, s.k}, b_dims{s.batch, s.k, s.n}, c_dims{s.batch, s.m, s.n};
    onednn::Dims c_strides{w.m * w.n, dense ? s.n : w.n, 1};
    if (s.batch == 1) {  // two dimensions reach kernels that three do not
      for (auto* dims : {&a_dims, &b_dims, &c_dims, &a_strides, &b_strides, &c_strides}) dims->erase(dims->begin());
    }
    onednn::Desc a = onednn::strided(a_dims, a_strides, s.type), b = onednn::strided(b_dims, b_strides, s.type);
    onednn::Desc c = onednn::strided(c_dims, c_strides, s.result);
    result_bytes = c.get_size();
    onednn::OneThread one_thread;
    dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), onednn::attributes(), onednn::engine());
    matmul = onednn::Primitive::of<dnnl::matmul>(desc, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  }
};

// Parts narrower than this take oneDNN notably longer than the whole, measured on one core with AVX-512. With both
// operands transposed any part does, by a third (1024^3 in 14.3 ms; in two parts 17.3), and such a product stays whole;
// with b alone none does (128x113x256 in 66.8 us, half of it in 33.5; 128x256x64 in 37.3, half in 18.8).
std::int64_t least_part(const DotShape& s) {
  if (!s.transpose_b) return 192;
  return s.transpose_a ? std::max(s.m, s.n) : 32;
}

// A part of the columns with b transposed meets oneDNN's best kernel only if it is dense; copying it into the result
// afterwards costs less than another kernel (32 x 4096 x 1024: 2.6 ms, otherwise 2.9).
bool needs_dense_parts(const DotShape& s, const DotChunks& chunks) {
  return chunks.axis() == CutAxis::kColumns && chunks.count() > 1 && s.transpose_b;
}

class OneDnnDot final : public Kernel {
 public:
  OneDnnDot(const DotShape& s, double cost)
      : chunks_(s, longer_axis(s), cost, {.multiple = 16, .least = least_part(s)}),
        dense_(needs_dense_parts(s, chunks_)), element_(size_of(s.result)),
        row_bytes_(static_cast<std::size_t>(s.n) * element_), product_(s, chunks_.shape(), dense_) {
    if (chunks_.has_shorter_last()) last_ = OneDnnProduct(s, chunks_.last_shape(), dense_);
    onednn::Workspace count;
    plan(count);
    chunk_bytes_ = count.used();
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_.count()) * chunk_bytes_; }
  void reserve(std::size_t num_threads) const override {
    product_.matmul.reserve(num_threads);
    last_.matmul.reserve(num_threads);
  }

  void run(const KernelArgs& args) const override {
    chunks_.for_each(args, [&](const Chunk& chunk, const std::byte* a, const std::byte* b, std::byte* c) {
      bool shorter = chunks_.has_shorter_last() && chunk.index + 1 == chunks_.count();
      onednn::Workspace workspace(static_cast<std::byte*>(args.workspace) +
                                  static_cast<std::size_t>(chunk.index) * chunk_bytes_);
      auto [dense, scratch] = plan(workspace);
      const OneDnnProduct& product = shorter ? last_ : product_;
      product.matmul.run({a, b, dense_ ? dense : c}, scratch);
      if (!dense_) return;
      const auto rows = static_cast<std::size_t>(chunks_.shape().m);
      const std::size_t bytes = static_cast<std::size_t>(chunk.size()) * element_;
      for (std::size_t i = 0; i < rows; ++i) std::memcpy(c + i * row_bytes_, dense + i * bytes, bytes);
    });
  }

 private:
  struct ChunkMemory {
    std::byte* dense;
    void* scratch;
  };
  ChunkMemory plan(onednn::Workspace& workspace) const {
    auto* dense = workspace.take<std::byte>(dense_ ? product_.result_bytes : 0);
    return {dense, workspace.take(std::max(product_.matmul.scratch_bytes(), last_.matmul.scratch_bytes()))};
  }

  DotChunks chunks_;
  bool dense_;                       // chunks of the result pass through the workspace
  std::size_t element_, row_bytes_;  // of the result
  OneDnnProduct product_, last_;
  std::size_t chunk_bytes_ = 0;
};

// Where our loops win, measured on one core with AVX-512 (microseconds, ours / oneDNN): b as stored, 16x972x100 20/21,
// 16x100x10 0.2/1.7, 64^3 3.0/4.4, 128^3 29/29, 256^3 249/198; b transposed, 16x100x972 27/36, 8x1000x512 71/143,
// 32^3 1.4/1.9, 64^3 7.2/4.9. Both transposed: oneDNN. With few rows, or few products for each element, they are even,
// and ours can be cut finer: b as stored, 40x256x320 56/56, 256x40x320 58/59, 40x1024x784 550/552, 256x128x113 72/81,
// 128x256x113 72/76; b transposed,
// 40x320x256 63/63, 40x784x1024 632/621, 48x128x256 35/30.
bool is_small(const DotShape& s) {
  if (s.transpose_a && s.transpose_b) return false;
  std::int64_t products = s.m * s.n * s.k;
  bool fits_cache = s.k * s.n <= kCachedWeights && s.m * s.n <= kCachedWeights;
  if (s.transpose_b) {
    if (s.transpose_a) return false;
    return s.m <= 16 || products <= 40 * 40 * 40 || (s.m <= kFewRows && s.k >= 256 && fits_cache);
  }
  return s.m <= 16 || s.k <= 16 || products <= 1 << 22 || (std::min(s.m, s.k) <= kFewRows && fits_cache);
}

// One product with b as stored, too narrow for enough parts of oneDNN's. Ours may be narrower at the same speed,
// measured on one core with AVX-512 (GFLOP/s, ours in eight parts / oneDNN whole): 512^3 112/111, 1024^3 108/106,
// 333x131x517 107/100. With a transposed, whose rows then are columns, oneDNN wins if there are many: 512x512x1024
// 115/157.
bool is_narrow(const DotShape& s) {
  constexpr std::int64_t kDeep = 512;
  if (s.batch > 1 || s.transpose_b || best_isa() != Isa::kAvx512) return false;
  if (s.transpose_a && s.k > kDeep) return false;
  return std::max(s.m, s.n) / least_part(s) < worthwhile_parts(kMultiplyAddCost * static_cast<double>(s.m * s.n * s.k));
}

// Measured on one core with AVX-512 (GFLOP/s, turned / oneDNN): 64^3 100/98, 128^3 105/95, 256x512x13 88/63, 512^3
// 110/92, 1024x512x512 111/92, 1024x768x3072 108/81; but 256x768x3072 98/103, batches 103/105, and both transposed
// even.
bool is_worth_turning(const DotShape& s) {
  if (s.batch > 1 || s.transpose_a || best_isa() != Isa::kAvx512) return false;
  if (s.m >= 128 && is_turned_by_panels(s)) return true;
  return s.m > kFewRows && (s.m >= 512 || s.n * s.k <= kCachedWeights);
}

// Turned in inference alone, and so once. Panels are read in one piece, which no other kernel does (microseconds on one
// core, 1024x1024 weights, panels / as they lie, in the cache and in memory: 4 rows 46/49, 107/156; 8 rows 76/97,
// 147/265; 32 rows 261/332, 388/525; and 128 rows of 768 floats 598/667, 687/750).
bool is_turned_once(const KernelRequest& request, const DotShape& s) {
  constexpr std::int64_t kLeastColumns = 64;
  return request.inputs[1].stays && s.transpose_b && s.m > 1 && s.n >= kLeastColumns;
}

// Of gradients of weights, where oneDNN's parts would be too few (GFLOP/s of a core with two units, turned / as it
// lies): 1024x256x1024 132/89, 512x512x1024 132/117, 1000x1280x96 146/116, 768x768x512 146/140; but 256x128x1000
// 134/159.
bool is_worth_turning_rows(const DotShape& s) {
  return s.transpose_a && is_narrow(s) && !is_small(s) && s.m >= 512 && s.n >= 192;
}

// The larger operand is read once: nothing is gained by preparing it.
bool has_vector(const DotShape& s) { return s.m == 1 || s.n == 1; }

// Of a product in which b or else a is a vector.
VectorDot vector_dot_of(const DotShape& s) {
  if (s.n == 1) return {s.batch, s.m, s.k, 0, 1, !s.transpose_a};
  return {s.batch, s.n, s.k, 1, 0, s.transpose_b};
}

Opinion judge_vector(const KernelRequest& request) {
  return has_vector(shape_of(request)) ? Opinion{Fit::kBest, "a vector"} : Opinion{Fit::kNone, "two matrices"};
}

// Products beyond which our loops are surely slower, and below which a call of oneDNN is.
constexpr std::int64_t kMostOfOurs = std::int64_t{1} << 28, kLeastOfOneDnn = 24 * 24 * 24;

Opinion judge_own(const KernelRequest& request) {
  DotShape s = shape_of(request);
  if (s.transpose_a && s.transpose_b) return {Fit::kNone, "both operands are transposed"};
  if (has_vector(s)) return {Fit::kPoor, "made for two matrices"};
  if (is_worth_turning_rows(s)) return {Fit::kClose, "columns of a lie far apart"};
  if (is_turned_once(request, s)) return {Fit::kClose, "b is read in pieces"};
  if (is_small(s)) return {Fit::kBest, "a small product"};
  if (is_narrow(s)) return {Fit::kBest, "oneDNN's parts would be too few"};
  return s.m * s.n * s.k <= kMostOfOurs ? Opinion{Fit::kClose, "operands are read as they lie"}
                                        : Opinion{Fit::kPoor, "a large product"};
}

Opinion judge_turned(const KernelRequest& request) {
  DotShape s = shape_of(request);
  if (!s.transpose_b && (!s.transpose_a || s.batch > 1)) return {Fit::kNone, "operands lie as they are read"};
  if (is_worth_turning_rows(s)) return {Fit::kBest, "every turned column of a is read often"};
  if (is_turned_once(request, s)) return {Fit::kBest, "b is turned once"};
  if (has_vector(s) || is_small(s)) return {Fit::kPoor, "turning b takes as long as the product"};
  return is_worth_turning(s) ? Opinion{Fit::kBest, "every turned row of b is read often"}
                             : Opinion{Fit::kClose, "a product of some size"};
}

Opinion judge_onednn(const KernelRequest& request) {
  DotShape s = shape_of(request);
  if (has_vector(s)) return {Fit::kPoor, "made for two matrices"};
  if (!is_turned_once(request, s) && !is_small(s) && !is_narrow(s) && !is_worth_turning(s) && !is_worth_turning_rows(s))
    return {Fit::kBest, "products outweigh preparations"};
  return s.m * s.n * s.k >= kLeastOfOneDnn ? Opinion{Fit::kClose, "a product of some size"}
                                           : Opinion{Fit::kPoor, "a call takes as long as the product"};
}

std::unique_ptr<Kernel> make_vector(const KernelRequest& request, std::string&) {
  return make_vector_dot(vector_dot_of(shape_of(request)));
}

std::unique_ptr<Kernel> make_own(const KernelRequest& request, std::string&) {
  DotShape s = shape_of(request);
  if (!is_small(s)) return std::make_unique<OwnDot>(s, longer_axis(s), Grain{.multiple = 16, .least = 48});
  const CutAxis axis = contiguous_axis(s);
  return std::make_unique<OwnDot>(s, axis, grain_of(axis, s));
}

std::unique_ptr<Kernel> make_turned(const KernelRequest& request, std::string&) {
  return make_turned_dot(shape_of(request));
}

std::unique_ptr<Kernel> make_onednn(const KernelRequest& request, std::string&) {
  return std::make_unique<OneDnnDot>(shape_of(request), kMultiplyAddCost);
}

// With twice the products per instruction and half the bytes, ahead of float32 between two conversions from the
// smallest products on (microseconds on one core: 32^3 0.9/1.6, 64^3 2.9/5.5, 512^3 1182/2440).
std::unique_ptr<Kernel> make_bfloat16_dot(const KernelRequest& request, std::string& why) {
  constexpr std::int64_t kLeast = 32 * 32 * 32;
  DotShape s = shape_of(request);
  if (s.type == DType::kBF16 && s.products() >= kLeast && onednn::multiplies_bfloat16()) {
    return std::make_unique<OneDnnDot>(s, kMultiplyAddCost / 2);
  }
  why = "dot: no instructions for bf16, or not worth it";
  return nullptr;
}

}  // namespace

std::vector<Candidate> dot_candidates() {
  return {{"vector", judge_vector, make_vector},
          {"own", judge_own, make_own},
          {"turned", judge_turned, make_turned},
          {"onednn", judge_onednn, make_onednn}};
}

std::string unsuited_for_dot(const KernelRequest& request) {
  if (request.inputs[0].type.dtype != DType::kF32) return "dot: the tuned kernels take f32";
  DotShape s = shape_of(request);
  return s.products() == 0 ? "dot: an empty operand" : "";
}

std::unique_ptr<GradientPieces> dot_in_pieces(const std::string& candidate, const KernelRequest& request) {
  const DotShape s = shape_of(request);
  if (s.batch > 1 || !s.transpose_a || s.transpose_b || has_vector(s)) return nullptr;
  const bool turns = candidate == "turned";
  const bool multiplies_as_it_lies = candidate == "own" && (!is_small(s) || contiguous_axis(s) != CutAxis::kSummands);
  return turns || multiplies_as_it_lies ? make_pieces_of_dot(s, turns) : nullptr;
}

void register_dot_cpu(KernelRegistry& kernels) {
  auto candidates = std::make_shared<const CandidateList>(unsuited_for_dot, dot_candidates());
  kernels.set_candidates("dot", candidates);
  kernels.add("dot", half_partials(first_of(candidates), dot_axes));
  kernels.add("dot", make_bfloat16_dot);
  add_with_half(kernels, "dot", first_of(candidates));
  kernels.add("dot_float", make_bfloat16_dot);
  kernels.add("dot_float", first_of(candidates));  // where there are no instructions for bf16
}

}  // namespace aspen
