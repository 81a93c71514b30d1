// Time of single kernels at the sizes of real models, on the cpu backend and on the reference beside it.
// `./dev bench kernels`; all options of Google Benchmark apply, e.g. --benchmark_filter=conv.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/ops/attention/attention.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/ops/pool/pool.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/remap/remap.h"
#include "aspen/ops/resize/resize.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/softmax/softmax.h"
#include "aspen/ops/sort/sort.h"
#include "aspen/ops/unary/unary.h"

namespace aspen {
namespace {

struct Case {
  std::string name;
  std::string op;
  Attrs attrs;
  std::vector<Shape> inputs;
  double flops = 0;             // 0: only the time and bytes count
  std::size_t i32_inputs = 0;   // the last so many inputs are indices, or of scatter the second
  DType dtype = DType::kF32;    // of the others
  std::size_t bool_inputs = 0;  // but for the first so many, which are bool
  std::int32_t top = 1;         // of the indices, exclusive
};

// Multiplications and additions of a convolution with square images.
double conv_flops(std::int64_t n, std::int64_t c, std::int64_t o, std::int64_t kernel, std::int64_t out) {
  return 2.0 * static_cast<double>(n * c * o * kernel * kernel * out * out);
}

// Ops that move elements.
void add_moves(std::vector<Case>& cases) {
  Shape plane = {1024, 1024}, image = {16, 64, 56, 56}, photo = {16, 3, 224, 224};
  SliceAttrs every_other{{0, 1}, {1024, 1024}, {1, 2}};
  auto add = [&](std::string name, Attrs attrs, std::vector<Shape> inputs, DType dtype = DType::kF32) {
    std::string op = name.substr(0, name.find('/'));
    cases.push_back({std::move(name), std::move(op), std::move(attrs), std::move(inputs), 0, 0, dtype});
  };
  for (DType dtype : {DType::kF32, DType::kF16, DType::kU8}) {
    std::string type(name_of(dtype));
    add("transpose/plane_" + type, Attrs::of(TransposeAttrs{{1, 0}}), {plane}, dtype);
    add("transpose/channels_last_" + type, Attrs::of(TransposeAttrs{{0, 2, 3, 1}}), {image}, dtype);
    add("transpose/photo_" + type, Attrs::of(TransposeAttrs{{0, 2, 3, 1}}), {photo}, dtype);
    add("transpose/photo_back_" + type, Attrs::of(TransposeAttrs{{0, 3, 1, 2}}), {{16, 224, 224, 3}}, dtype);
    add("reverse/rows_" + type, Attrs::of(ReverseAttrs{{1}}), {plane}, dtype);
    add("slice/every_other_" + type, Attrs::of(every_other), {plane}, dtype);
  }
  add("transpose/heads", Attrs::of(TransposeAttrs{{0, 2, 1, 3}}), {{16, 128, 8, 64}});
  add("transpose/pairs", Attrs::of(TransposeAttrs{{1, 0, 2}}), {{512, 512, 2}});
  add("broadcast/rows", Attrs::of(BroadcastAttrs{plane}), {{1024}});
  add("broadcast/columns", Attrs::of(BroadcastAttrs{plane}), {{1024, 1}});
  add("reverse/outer", Attrs::of(ReverseAttrs{{0}}), {plane});
  add("slice/part", Attrs::of(SliceAttrs{{0, 32, 0, 0}, {16, 64, 56, 56}, {1, 1, 1, 1}}), {image});
  add("slice/narrow", Attrs::of(SliceAttrs{{0, 1}, {100000, 6}, {1, 1}}), {{100000, 8}});
  add("slice_update/every_other", Attrs::of(every_other), {plane, {1024, 512}});
  add("pad/image", Attrs::of(PadAttrs{{0, 0, 1, 1}, {0, 0, 1, 1}, {0, 0, 0, 0}, 0}), {image});
  add("pad/interior", Attrs::of(PadAttrs{{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, 1, 1}, 0}), {image});
  add("pad/channels", Attrs::of(PadAttrs{{0, 0, 0, 0}, {0, 8, 0, 0}, {0, 0, 0, 0}, 0}), {image});
  RemapAttrs reflect{{2, 1, -1, 1, 2, 0, 1, 56, 2, 54, 1, 1, 3, 1, -1, 1, 3, 0, 1, 56, 3, 54, 1, 1}, {}};
  add("remap/reflect", Attrs::of(reflect), {image});
  reflect.shape = image;
  add("remap_grad/reflect", Attrs::of(reflect), {{16, 64, 58, 58}});
  add("remap/roll", Attrs::of(RemapAttrs{{1, 5, 1, 1019, 1, 0, 1, 5}, {}}), {plane});
  add("concat/channels", Attrs::of(ConcatAttrs{1}), {image, image});
  add("concat/last", Attrs::of(ConcatAttrs{1}), {plane, {1024, 64}, plane});
  add("concat/narrow", Attrs::of(ConcatAttrs{1}), {{100000, 3}, {100000, 5}});
}

// Ops that read and write by index.
void add_indices(std::vector<Case>& cases) {
  auto add = [&](std::string name, Attrs attrs, std::vector<Shape> inputs, std::int32_t top) {
    std::string op = name.substr(0, name.find('/'));
    cases.push_back({std::move(name), std::move(op), std::move(attrs), std::move(inputs), 0, 1, DType::kF32, 0, top});
  };
  add("take/embedding", Attrs::of(TakeAttrs{0}), {{30000, 256}, {4096}}, 30000);
  add("take/columns", Attrs::of(TakeAttrs{1}), {{1024, 1024}, {512}}, 1024);
  add("gather/last", Attrs::of(GatherAttrs{1}), {{1024, 1024}, {1024, 512}}, 1024);
  add("gather/first", Attrs::of(GatherAttrs{0}), {{1024, 1024}, {512, 1024}}, 1024);
  cases.push_back({.name = "sum_rows/bags",
                   .op = "sum_rows",
                   .attrs = Attrs::of(SumRowsAttrs{512}),
                   .inputs = {{10000, 64}, {10240}, {10240}},
                   .i32_inputs = 2,
                   .top = 512});
  for (const char* mode : {"add", "set", "max"}) {
    std::string m = mode;
    add("scatter_rows/embedding_" + m, Attrs::of(ScatterAttrs{0, m}), {{30000, 256}, {4096}, {4096, 256}}, 30000);
    add("scatter_rows/numbers_" + m, Attrs::of(ScatterAttrs{0, m}), {{1000}, {500000}, {500000}}, 1000);
    add("scatter/last_" + m, Attrs::of(ScatterAttrs{1, m}), {{1024, 1024}, {1024, 512}, {1024, 512}}, 1024);
    add("scatter/first_" + m, Attrs::of(ScatterAttrs{0, m}), {{1024, 1024}, {512, 1024}, {512, 1024}}, 1024);
  }
}

void add_sorts(std::vector<Case>& cases) {
  auto add = [&](std::string name, SortAttrs attrs, Shape x, DType dtype = DType::kF32) {
    cases.push_back({"sort/" + name, "sort", Attrs::of(attrs), {std::move(x)}, 0, 0, dtype});
  };
  add("rows", {1, false}, {256, 1000});
  add("short", {1, false}, {4096, 64});
  add("long", {0, false}, {1000000});
  add("columns", {0, true}, {1000, 256});
  add("half", {1, false}, {256, 1000}, DType::kF16);
  add("top5", {1, true, 5}, {256, 1000});
  add("top50_vocabulary", {1, true, 50}, {16, 30000});
}

// Averages over windows and interpolation.
void add_windows(std::vector<Case>& cases) {
  auto add = [&](std::string name, Attrs attrs, Shape x) {
    std::string op = name.substr(0, name.find('/'));
    cases.push_back({std::move(name), std::move(op), std::move(attrs), {std::move(x)}});
  };
  Shape x = {8, 64, 56, 56}, half = {8, 64, 28, 28}, volume = {2, 16, 16, 28, 28};
  PoolAttrs touching{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, overlapping{{3, 3}, {1, 1}, {1, 1}, {1, 1}};
  PoolAttrs strided{{3, 3}, {2, 2}, {1, 1}, {1, 1}}, block{{2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}};
  PoolAttrs strided_block{{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}};
  add("avg_pool/2x2", Attrs::of(touching), x);
  add("avg_pool/3x3", Attrs::of(overlapping), x);
  add("avg_pool/axis", Attrs::of(PoolAttrs{{2}, {2}, {0}, {1}}), {16, 64, 1024});
  add("avg_pool/volume", Attrs::of(block), volume);
  add("avg_pool_grad/2x2", Attrs::of(AvgPoolGradAttrs{touching, x}), half);
  add("avg_pool_grad/3x3", Attrs::of(AvgPoolGradAttrs{overlapping, x}), x);
  add("avg_pool_grad/3x3_stride2", Attrs::of(AvgPoolGradAttrs{strided, x}), half);
  add("adaptive_avg_pool/7", Attrs::of(AdaptiveAvgPoolAttrs{{7, 7}, {}}), x);
  add("adaptive_avg_pool/uneven", Attrs::of(AdaptiveAvgPoolAttrs{{13, 13}, {}}), x);
  add("adaptive_avg_pool/1", Attrs::of(AdaptiveAvgPoolAttrs{{1, 1}, {}}), {32, 512, 7, 7});
  add("adaptive_avg_pool_grad/7", Attrs::of(AdaptiveAvgPoolAttrs{{7, 7}, x}), {8, 64, 7, 7});
  add("max_pool/volume", Attrs::of(block), volume);
  add("max_pool/volume3", Attrs::of(strided_block), volume);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    std::string m = mode;
    ResizeAttrs up{m, {56, 56}, {0.5, 0.5}}, down{m, {28, 28}, {2.0, 2.0}};
    add("resize/" + m + "_up", Attrs::of(up), half);
    add("resize/" + m + "_down", Attrs::of(down), x);
    up.shape = half;
    add("resize_grad/" + m + "_up", Attrs::of(up), x);
  }
  add("resize/linear_photo", Attrs::of(ResizeAttrs{"linear", {299, 299}, {224.0 / 299, 224.0 / 299}}),
      {2, 3, 224, 224});
}

std::vector<Case> cases() {
  ConvAttrs valid{{1, 1}, {0, 0}, {1, 1}, 1};
  ConvAttrs same{{1, 1}, {1, 1}, {1, 1}, 1};
  Shape x = {16, 5, 13, 13}, w = {12, 5, 5, 5}, y = {16, 12, 9, 9};
  Shape rx = {8, 64, 56, 56}, rw = {64, 64, 3, 3};
  Shape image = {16, 1, 28, 28}, first_w = {5, 1, 3, 3}, first_y = {16, 5, 26, 26};
  double small = conv_flops(16, 5, 12, 5, 9), large = conv_flops(8, 64, 64, 3, 56), first = conv_flops(16, 1, 5, 3, 26);
  Shape hx = {16, 64, 28, 28}, large_x = {8, 64, 56, 56};
  double linear = 2.0 * 16 * 972 * 100, half_conv = conv_flops(16, 64, 64, 3, 28);
  constexpr DType kHalf = DType::kF16;
  std::vector<Case> all = {
      {"conv/cnn_first", "conv", Attrs::of(valid), {image, first_w}, first},
      {"conv_weight_grad/cnn_first",
       "conv_weight_grad",
       Attrs::of(ConvGradAttrs{valid, first_w}),
       {image, first_y},
       first},
      {"conv/cnn", "conv", Attrs::of(valid), {x, w}, small},
      {"conv_input_grad/cnn", "conv_input_grad", Attrs::of(ConvGradAttrs{valid, x}), {y, w}, small},
      {"conv_weight_grad/cnn", "conv_weight_grad", Attrs::of(ConvGradAttrs{valid, w}), {x, y}, small},
      {"conv/resnet", "conv", Attrs::of(same), {rx, rw}, large},
      {"conv_input_grad/resnet", "conv_input_grad", Attrs::of(ConvGradAttrs{same, rx}), {rx, rw}, large},
      {"conv_weight_grad/resnet", "conv_weight_grad", Attrs::of(ConvGradAttrs{same, rw}), {rx, rx}, large},
      {"dot/cnn", "dot", Attrs::of(DotAttrs{false, true}), {{16, 972}, {100, 972}}, linear},
      {"dot/cnn_input_grad", "dot", Attrs::of(DotAttrs{false, false}), {{16, 100}, {100, 972}}, linear},
      {"dot/cnn_weight_grad", "dot", Attrs::of(DotAttrs{true, false}), {{16, 100}, {16, 972}}, linear},
      {"dot/transformer", "dot", Attrs::of(DotAttrs{false, true}), {{1024, 512}, {512, 512}}, 2.0 * 1024 * 512 * 512},
      {"dot/attention",
       "dot",
       Attrs::of(DotAttrs{false, true}),
       {{64, 128, 64}, {64, 128, 64}},
       2.0 * 64 * 128 * 128 * 64},
      {"attention/transformer",
       "attention",
       Attrs::of(AttentionAttrs{.scale = 0.125}),
       {{8, 128, 8, 64}, {8, 128, 8, 64}, {8, 128, 8, 64}},
       4.0 * 64 * 128 * 128 * 64},
      {"max_pool/cnn", "max_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}), {{16, 5, 26, 26}}},
      {"max_pool_grad/cnn",
       "max_pool_grad",
       Attrs::of(MaxPoolGradAttrs{first_y}),
       {{16, 5, 13, 13}, {16, 5, 13, 13}},
       0,
       1},
      {"log_softmax/cnn", "log_softmax", Attrs::of(SoftmaxAttrs{-1}), {{16, 10}}},
      {"softmax/attention", "softmax", Attrs::of(SoftmaxAttrs{-1}), {{64, 128, 128}}},
      {"normalize/layer", "normalize", Attrs::of(NormalizeAttrs{{1}}), {{1024, 512}}},
      {"normalize/group", "normalize", Attrs::of(NormalizeAttrs{{2}}), {{16, 3, 324}}},
      {"normalize_grad/group",
       "normalize_grad",
       Attrs::of(NormalizeAttrs{{2}}),
       {{16, 3, 324}, {16, 3, 1}, {16, 3, 324}}},
      {"normalize/batch", "normalize", Attrs::of(NormalizeAttrs{{0, 2, 3}}), {{8, 64, 56, 56}}},
      {"reduce_sum/rows", "reduce_sum", Attrs::of(ReduceAttrs{{1}}), {{1024, 512}}},
      {"reduce_sum/columns", "reduce_sum", Attrs::of(ReduceAttrs{{0}}), {{1024, 512}}},
      {"reduce_sum/bias", "reduce_sum", Attrs::of(ReduceAttrs{{0, 2, 3}}), {{16, 5, 26, 26}}},
      {"mul/channels", "mul", Attrs(), {{16, 12, 9, 9}, {12, 1, 1}}},
      {"add/large", "add", Attrs(), {{8, 64, 56, 56}, {8, 64, 56, 56}}},
      {"relu/cnn", "relu", Attrs(), {{16, 5, 26, 26}}},
      {"relu_grad/cnn", "relu_grad", Attrs(), {{16, 5, 26, 26}, {16, 5, 26, 26}}},
      {"sgd/cnn", "sgd", Attrs::of(SgdAttrs{true, false}), {{100, 972}, {100, 972}, {kNumSettings}, {}, {100, 972}}},
      {"exp/large", "exp", Attrs(), {{8, 64, 56, 56}}},
      {"sin/large", "sin", Attrs(), {large_x}},
      {"tan/large", "tan", Attrs(), {large_x}},
      {"asin/large", "asin", Attrs(), {large_x}},
      {"atan/large", "atan", Attrs(), {large_x}},
      {"sinh/large", "sinh", Attrs(), {large_x}},
      {"asinh/large", "asinh", Attrs(), {large_x}},
      {"atanh/large", "atanh", Attrs(), {large_x}},
      {"erfc/large", "erfc", Attrs(), {large_x}},
      {"erfinv/large", "erfinv", Attrs(), {large_x}},
      {"isnan/large", "isnan", Attrs(), {large_x}},
      {"clamp/large", "clamp", Attrs::of(ClampAttrs{0, 6}), {large_x}},
      {"pow/large", "pow", Attrs(), {large_x, {}}},
      {"pow/tensors", "pow", Attrs(), {large_x, large_x}},
      {"atan2/large", "atan2", Attrs(), {large_x, large_x}},
      {"rem_floor/large", "rem_floor", Attrs(), {large_x, large_x}},
      {"div_floor/large", "div_floor", Attrs(), {large_x, large_x}},
      {"lt/large", "lt", Attrs(), {large_x, {}}},
      {"lt/half", "lt", Attrs(), {large_x, {}}, 0, 0, kHalf},
      {"select/half", "select", Attrs(), {large_x, large_x, large_x}, 0, 0, kHalf, 1},
      {"select/large", "select", Attrs(), {large_x, large_x, large_x}, 0, 0, DType::kF32, 1},
      {"logical_or/bool", "logical_or", Attrs(), {large_x, large_x}, 0, 0, DType::kBool},
      {"eq/bool", "eq", Attrs(), {large_x, large_x}, 0, 0, DType::kBool},
      {"add/integers", "add", Attrs(), {large_x, large_x}, 0, 0, DType::kI32},
      {"max/integers", "max", Attrs(), {large_x, large_x}, 0, 0, DType::kI32},
      {"div_floor/integers", "div_floor", Attrs(), {large_x, large_x}, 0, 0, DType::kI32},
      {"lt/integers", "lt", Attrs(), {large_x, {}}, 0, 0, DType::kI32},
      {"add/short_rows", "add", Attrs(), {{200000, 3}, {3}}},
      {"mul/short_columns", "mul", Attrs(), {{200000, 3}, {200000, 1}}},
      {"reduce_prod/rows", "reduce_prod", Attrs::of(ReduceAttrs{{1}}), {{1024, 512}}},
      {"reduce_prod/columns", "reduce_prod", Attrs::of(ReduceAttrs{{0}}), {{1024, 512}}},
      {"reduce_sum/integer_rows", "reduce_sum", Attrs::of(ReduceAttrs{{1}}), {{1024, 512}}, 0, 0, DType::kI32},
      {"reduce_sum/integer_columns", "reduce_sum", Attrs::of(ReduceAttrs{{0}}), {{1024, 512}}, 0, 0, DType::kI32},
      {"reduce_max/any", "reduce_max", Attrs::of(ReduceAttrs{{0, 1}}), {{1024, 512}}, 0, 0, DType::kBool},
      {"reduce_sum/middle", "reduce_sum", Attrs::of(ReduceAttrs{{1}}), {{64, 128, 64}}},
      {"reduce_sum/narrow", "reduce_sum", Attrs::of(ReduceAttrs{{0}}), {{200000, 3}}},
      {"reduce_sum/short", "reduce_sum", Attrs::of(ReduceAttrs{{1}}), {{200000, 3}}},
      {"argreduce/rows", "argreduce", Attrs::of(ArgReduceAttrs{1, true, false}), {{1024, 512}}},
      {"argreduce/columns", "argreduce", Attrs::of(ArgReduceAttrs{0, true, false}), {{1024, 512}}},
      {"argreduce/classes", "argreduce", Attrs::of(ArgReduceAttrs{1, true, false}), {{50000, 10}}},
      {"argreduce/planes", "argreduce", Attrs::of(ArgReduceAttrs{1, true, false}), {{8, 21, 64, 64}}},
      {"cumsum/rows", "cumsum", Attrs::of(ScanAttrs{1, false, false}), {{1024, 512}}},
      {"cumsum/columns", "cumsum", Attrs::of(ScanAttrs{0, false, false}), {{1024, 512}}},
      {"cumsum/whole", "cumsum", Attrs::of(ScanAttrs{0, false, false}), {{524288}}},
      {"cumprod/rows", "cumprod", Attrs::of(ScanAttrs{1, false, false}), {{1024, 512}}},
      {"cumprod_grad/rows", "cumprod_grad", Attrs::of(ScanAttrs{1}), {{1024, 512}, {1024, 512}, {1024, 512}}},
      {"nll/classes", "nll", Attrs::of(NllAttrs{}), {{4096, 1000}, {4096}}, 0, 1},
      {"nll/planes", "nll", Attrs::of(NllAttrs{}), {{8, 21, 128, 128}, {8, 128, 128}}, 0, 1},
      {"conv/half", "conv", Attrs::of(same), {hx, rw}, half_conv, 0, kHalf},
      {"conv_input_grad/half", "conv_input_grad", Attrs::of(ConvGradAttrs{same, hx}), {hx, rw}, half_conv, 0, kHalf},
      {"conv_weight_grad/half", "conv_weight_grad", Attrs::of(ConvGradAttrs{same, rw}), {hx, hx}, half_conv, 0, kHalf},
      {"dot/half", "dot", Attrs::of(DotAttrs{}), {{256, 256}, {256, 256}}, 2.0 * 256 * 256 * 256, 0, kHalf},
      {"max_pool/half", "max_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}), {hx}, 0, 0, kHalf},
      {"avg_pool/half", "avg_pool", Attrs::of(PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}}), {hx}, 0, 0, kHalf},
      {"normalize/half", "normalize", Attrs::of(NormalizeAttrs{{0, 2, 3}}), {hx}, 0, 0, kHalf},
      {"reduce_sum/half", "reduce_sum", Attrs::of(ReduceAttrs{{0, 2, 3}}), {hx}, 0, 0, kHalf},
      {"softmax/half", "softmax", Attrs::of(SoftmaxAttrs{-1}), {{64, 128, 128}}, 0, 0, kHalf},
  };
  add_moves(all);
  add_indices(all);
  add_sorts(all);
  add_windows(all);
  return all;
}

KernelRequest request_of(const Case& c) {
  Graph graph;
  std::vector<Value*> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    bool is_index = c.op.starts_with("scatter") ? i == 1 : i + c.i32_inputs >= c.inputs.size();
    DType dtype = i < c.bool_inputs ? DType::kBool : is_index ? DType::kI32 : c.dtype;
    inputs.push_back(graph.add_input("x", {dtype, c.inputs[i]}));
  }
  const OpDef& def = op_registry().find(c.op);
  while (inputs.size() < def.input_ports().size() && def.input_ports()[inputs.size()].optional) {
    inputs.push_back(nullptr);
  }
  const Op* op = graph.add_op(def, inputs, c.attrs);
  KernelRequest request{.op = c.op, .attrs = c.attrs, .inputs = {}, .outputs = {}};
  for (const Value* input : inputs) {
    request.inputs.push_back({input != nullptr ? input->type() : TensorType{}, input != nullptr});
  }
  for (const Value* output : op->outputs()) request.outputs.push_back(output->type());
  return request;
}

// Buffers as a program would give them: 64-byte aligned.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : data_(std::aligned_alloc(64, (bytes + 127) / 64 * 64), std::free) {}
  void* get() const { return data_.get(); }

 private:
  std::unique_ptr<void, decltype(&std::free)> data_;
};

void run(benchmark::State& state, const Case& c, const Backend& backend) {
  KernelRequest request = request_of(c);
  std::unique_ptr<Kernel> kernel = backend.create_kernel(request);
  std::mt19937 random(0);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::uniform_int_distribution<std::int32_t> whole(0, c.top - 1);
  std::vector<Memory> memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::size_t bytes = 0;
  for (const KernelInput& input : request.inputs) {
    if (!input.present) {
      inputs.push_back(nullptr);
      continue;
    }
    memory.emplace_back(input.type.bytes());
    dispatch(input.type.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      auto* data = static_cast<T*>(memory.back().get());
      for (std::int64_t i = 0; i < input.type.numel(); ++i) {
        data[i] = is_floating(input.type.dtype) ? static_cast<T>(uniform(random)) : static_cast<T>(whole(random));
      }
    });
    inputs.push_back(memory.back().get());
    bytes += input.type.bytes();
  }
  for (const TensorType& output : request.outputs) {
    memory.emplace_back(output.bytes());
    outputs.push_back(memory.back().get());
    bytes += output.bytes();
  }
  Memory workspace(kernel->workspace_bytes());
  StepContext step;
  KernelArgs args{inputs, outputs, workspace.get(), &step};
  while (state.KeepRunning()) {
    kernel->run(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  if (c.flops > 0) {
    state.counters["flops"] = benchmark::Counter(c.flops, benchmark::Counter::kIsIterationInvariantRate);
  }
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::shared_ptr<aspen::Backend>> backends = {aspen::make_cpu_backend(), aspen::make_reference_backend()};
  for (const aspen::Case& c : aspen::cases()) {
    for (const auto& backend : backends) {
      benchmark::RegisterBenchmark((c.name + "/" + backend->name()).c_str(), [c, backend](benchmark::State& state) {
        aspen::run(state, c, *backend);
      })->MinTime(0.1);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
