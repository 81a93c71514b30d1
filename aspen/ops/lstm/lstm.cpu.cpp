#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/widened.h"

#define ASPEN_ISA_FILE "aspen/ops/lstm/lstm_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

constexpr double kStateCost = 5 * kMathCost;  // of an element of a state, which has four gates

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& gates = request.inputs[0].type;
  if (gates.dtype == DType::kF32 && gates.numel() > 0) return false;
  why = fmt::format("{}: the vector loops take f32 with at least one element, not {}", request.op, to_string(gates));
  return true;
}

// Rows of a state; one that is absent is a row of zeros for all of them.
struct Rows {
  const float* first;
  std::int64_t step;
  const float* operator[](std::int64_t row) const { return first + row * step; }
};

class LstmRows {
 public:
  explicit LstmRows(const KernelRequest& request)
      : width_(request.inputs[0].type.shape[1] / 4),
        chunks_(cut(request.inputs[0].type.shape[0], kStateCost * static_cast<double>(request.outputs[1].numel()))) {}

  std::int64_t width() const { return width_; }
  std::size_t zero_bytes() const { return static_cast<std::size_t>(4 * width_) * sizeof(float); }

  // Calls f(row) for every row.
  template <class F>
  void for_each(const KernelArgs& args, F&& f) const {
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      for (std::int64_t row = chunk.begin; row < chunk.end; ++row) f(row);
    });
  }

  Rows operand(const KernelArgs& args, std::size_t i, std::int64_t step) const {
    if (args.inputs[i] != nullptr) return {static_cast<const float*>(args.inputs[i]), step};
    auto* zeros = static_cast<float*>(args.workspace);
    std::fill(zeros, zeros + 4 * width_, 0.0f);
    return {zeros, 0};
  }

 private:
  std::int64_t width_;
  Chunks chunks_;
};

float* result(const KernelArgs& args, std::size_t i) { return static_cast<float*>(args.outputs[i]); }

std::unique_ptr<Kernel> make_gates(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const LstmRows rows(request);
  return make_kernel(
      [rows](const KernelArgs& args) {
        const std::int64_t n = rows.width();
        const Rows a = rows.operand(args, 0, 4 * n), b = rows.operand(args, 1, 4 * n), bias = rows.operand(args, 2, 0);
        const Rows c = rows.operand(args, 3, n);
        float *h = result(args, 0), *next = result(args, 1), *gates = result(args, 2);
        rows.for_each(args, [&](std::int64_t row) {
          ASPEN_BEST(lstm_gates_row)
          (n, a[row], b[row], bias[row], c[row], h + row * n, next + row * n, gates + row * 4 * n);
        });
      },
      rows.zero_bytes());
}

std::unique_ptr<Kernel> make_gates_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  const LstmRows rows(request);
  return make_kernel(
      [rows](const KernelArgs& args) {
        const std::int64_t n = rows.width();
        const Rows gates = rows.operand(args, 0, 4 * n), c = rows.operand(args, 1, n);
        const Rows dh = rows.operand(args, 2, n), dnext = rows.operand(args, 3, n);
        float *dgates = result(args, 0), *dc = result(args, 1);
        rows.for_each(args, [&](std::int64_t row) {
          ASPEN_BEST(lstm_gates_grad_row)
          (n, gates[row], c[row], dh[row], dnext[row], dgates + row * 4 * n, dc + row * n);
        });
      },
      rows.zero_bytes());
}

}  // namespace

void register_lstm_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "lstm_gates", make_gates);
  add_with_half(kernels, "lstm_gates_grad", make_gates_grad);
}

}  // namespace aspen
