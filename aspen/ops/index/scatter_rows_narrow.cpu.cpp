#include "aspen/ops/index/scatter_rows_narrow.cpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "aspen/backends/cpu/chunks.h"
#include "aspen/backends/cpu/elementwise.h"
#include "aspen/backends/cpu/onednn.h"
#include "aspen/ops/index/check_index.h"
#include "aspen/ops/index/index.h"

namespace aspen {
namespace {

struct RowsShape {
  std::int64_t rows = 0, columns = 0;  // of x
  std::int64_t count = 0;              // of updates

  std::int64_t most_met() const { return std::min(rows, count); }
};

// Widens and rounds one row, or several.
class NarrowRows {
 public:
  explicit NarrowRows(DType type) : type_(type) {}
  void widen(const void* x, std::int64_t at, float* y, std::int64_t n) const {
    type_ == DType::kF16 ? to_float(static_cast<const Half*>(x) + at, y, n)
                         : to_float(static_cast<const BFloat16*>(x) + at, y, n);
  }
  void round(const float* x, void* y, std::int64_t at, std::int64_t n) const {
    type_ == DType::kF16 ? from_float(x, static_cast<Half*>(y) + at, n)
                         : from_float(x, static_cast<BFloat16*>(y) + at, n);
  }

 private:
  DType type_;
};

class NarrowScatterRows final : public Kernel {
 public:
  // kernel: the same op on float32 and on as many rows as updates may meet.
  NarrowScatterRows(const KernelRequest& request, const RowsShape& shape, std::unique_ptr<Kernel> kernel)
      : index_shape_(request.inputs[1].type.shape), bytes_(request.outputs[0].bytes()), s_(shape),
        convert_(request.outputs[0].dtype), kernel_(std::move(kernel)) {
    onednn::Workspace count;
    plan(count);
    workspace_bytes_ = count.used();
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void reserve(std::size_t num_threads) const override { kernel_->reserve(num_threads); }

  void run(const KernelArgs& args) const override {
    onednn::Workspace workspace(args.workspace);
    const Memory memory = plan(workspace);
    const std::int64_t num_met = number(static_cast<const std::int32_t*>(args.inputs[1]), memory);
    if (args.inputs[0] != args.outputs[0]) std::memcpy(args.outputs[0], args.inputs[0], bytes_);
    auto for_each_met = [&](auto&& convert) {
      double cost = kMoveCost * static_cast<double>(num_met * s_.columns);
      for_each_chunk(args, cut(num_met, cost), [&](const Chunk& chunk) {
        for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
          convert(memory.met[i] * s_.columns, memory.rows + i * s_.columns);
        }
      });
    };
    for_each_met([&](std::int64_t at, float* row) { convert_.widen(args.outputs[0], at, row, s_.columns); });
    for_each_chunk(args, cut_elements(s_.count * s_.columns, kMoveCost), [&](const Chunk& chunk) {
      convert_.widen(args.inputs[2], chunk.begin, memory.updates + chunk.begin, chunk.size());
    });
    const void* inputs[] = {memory.rows, memory.index, memory.updates};
    void* outputs[] = {memory.rows};
    kernel_->run({.inputs = inputs, .outputs = outputs, .workspace = memory.kernel, .step = args.step});
    for_each_met([&](std::int64_t at, const float* row) { convert_.round(row, args.outputs[0], at, s_.columns); });
  }

 private:
  struct Memory {
    std::int32_t* number;  // of each row, in the order in which updates meet them; 0: none
    std::int32_t* met;     // the rows, by their numbers less 1
    std::int32_t* index;   // what each update meets among them
    float *rows, *updates;
    void* kernel;
  };
  Memory plan(onednn::Workspace& workspace) const {
    auto take = [&]<class T>(TypeTag<T>, std::int64_t items) {
      return workspace.take<T>(static_cast<std::size_t>(items) * sizeof(T));
    };
    constexpr TypeTag<std::int32_t> kIndices;
    constexpr TypeTag<float> kFloats;
    Memory memory{};
    memory.number = take(kIndices, s_.rows);
    memory.met = take(kIndices, s_.most_met());
    memory.index = take(kIndices, s_.count);
    memory.rows = take(kFloats, s_.most_met() * s_.columns);
    memory.updates = take(kFloats, s_.count * s_.columns);
    memory.kernel = workspace.take(kernel_->workspace_bytes());
    return memory;
  }

  // Returns how many rows are met.
  std::int64_t number(const std::int32_t* index, const Memory& memory) const {
    std::fill_n(memory.number, s_.rows, 0);
    std::int32_t count = 0;
    for (std::int64_t k = 0; k < s_.count; ++k) {
      auto row = static_cast<std::int32_t>(checked_index(index[k], s_.rows, "scatter_rows", k, index_shape_));
      std::int32_t& number = memory.number[row];
      if (number == 0) {
        memory.met[count] = row;
        number = ++count;
      }
      memory.index[k] = number - 1;
    }
    return count;
  }

  Shape index_shape_;
  std::size_t bytes_;
  RowsShape s_;
  NarrowRows convert_;
  std::unique_ptr<Kernel> kernel_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

KernelFactory narrow_scatter_rows(KernelFactory make_float) {
  return [make_float = std::move(make_float)](const KernelRequest& request,
                                              std::string& why) -> std::unique_ptr<Kernel> {
    const TensorType& x = request.inputs[0].type;
    const auto& attrs = request.attrs.as<ScatterAttrs>();
    AxisLines lines(x.shape, attrs.axis, "scatter_rows");
    RowsShape s{lines.size, lines.inner, request.inputs[1].type.numel()};
    if (!is_narrow_float(x.dtype) || lines.outer != 1 || s.most_met() * s.columns == 0) {
      why = fmt::format("scatter_rows: not rows along the first axis in half or bfloat16, but {}", to_string(x));
      return nullptr;
    }
    KernelRequest wide = request;
    wide.attrs = Attrs::of(ScatterAttrs{0, attrs.mode});
    wide.inputs = {
        {{DType::kF32, {s.most_met(), s.columns}}}, {{DType::kI32, {s.count}}}, {{DType::kF32, {s.count, s.columns}}}};
    wide.outputs = {wide.inputs[0].type};
    std::unique_ptr<Kernel> kernel = make_float(wide, why);
    if (kernel == nullptr) return nullptr;
    return std::make_unique<NarrowScatterRows>(request, s, std::move(kernel));
  };
}

}  // namespace aspen
