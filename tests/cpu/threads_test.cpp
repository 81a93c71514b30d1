// Bits do not depend on threads: every kernel gives the same result with a team of any size, with chunks in any order,
// at any place in memory, and while it runs on another thread with other buffers.
#include <cstring>
#include <functional>
#include <thread>

#include "aspen/ops/addcmul/addcmul.h"
#include "aspen/ops/attention/attention.h"
#include "aspen/ops/batch_last/batch_last.h"
#include "aspen/ops/batch_norm/batch_norm.h"
#include "aspen/ops/cast/cast.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/loss_scale/loss_scale.h"
#include "aspen/ops/nll/nll.h"
#include "aspen/ops/normalize/normalize.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/ops/pool/pool.h"
#include "aspen/ops/random/random.h"
#include "aspen/ops/reduce/reduce.h"
#include "aspen/ops/remap/remap.h"
#include "aspen/ops/resize/resize.h"
#include "aspen/ops/shape/shape.h"
#include "aspen/ops/softmax/softmax.h"
#include "aspen/ops/sort/sort.h"
#include "aspen/ops/source/source.h"
#include "aspen/ops/unary/unary.h"
#include "aspen/runtime/thread_team.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

const Backend& cpu() {
  static const auto backend = make_cpu_backend();
  return *backend;
}

// The chunks from the last to the first, all on the calling thread; remembers how many there were at most.
class BackwardsTeam final : public ThreadTeam {
 public:
  explicit BackwardsTeam(std::size_t num_threads = 2) : num_threads_(num_threads) {}
  std::size_t num_threads() const override { return num_threads_; }
  void run(std::int64_t num_chunks, const std::function<void(std::int64_t)>& work) override {
    most_chunks = std::max(most_chunks, num_chunks);
    for (std::int64_t chunk = num_chunks; chunk-- > 0;) work(chunk);
  }
  std::size_t this_thread() const override { return 0; }
  std::int64_t most_chunks = 1;

 private:
  std::size_t num_threads_;
};

struct Inputs {
  std::vector<Buffer> buffers;
  std::vector<const void*> pointers;
};

Inputs make_inputs(const KernelRequest& request, const CompareOptions& options, unsigned seed = 7) {
  std::mt19937 random(seed);
  Inputs inputs;
  for (const KernelInput& input : request.inputs) {
    if (input.present) {
      inputs.buffers.push_back(
          random_buffer(input.type, random, options.low, options.high, options.top, options.bottom));
    }
    inputs.pointers.push_back(input.present ? inputs.buffers.back().get() : nullptr);
  }
  return inputs;
}

std::vector<Buffer> run_with(const Kernel& kernel, const KernelRequest& request, const Inputs& inputs,
                             ThreadTeam* team) {
  Buffer workspace(kernel.workspace_bytes());
  std::vector<Buffer> results;
  std::vector<void*> outputs;
  for (const TensorType& type : request.outputs) {
    results.emplace_back(type.bytes());
    outputs.push_back(results.back().get());
  }
  StepContext step{.seed = 42, .step = 3, .team = team};
  kernel.run(KernelArgs{inputs.pointers, outputs, workspace.get(), &step});
  EXPECT_TRUE(workspace.intact()) << to_string(request) << " writes past its workspace";
  for (const Buffer& result : results) EXPECT_TRUE(result.intact()) << to_string(request) << " writes past its output";
  return results;
}

void expect_same_bits(const KernelRequest& request, const std::vector<Buffer>& expected,
                      const std::vector<Buffer>& actual, const std::string& what) {
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    std::size_t bytes = request.outputs[i].bytes();
    EXPECT_EQ(std::memcmp(expected[i].get(), actual[i].get(), bytes), 0)
        << to_string(request) << ", output " << i << " differs " << what;
  }
}

// Returns the largest number of chunks the kernel hands out.
std::int64_t check_teams(const KernelRequest& request, const CompareOptions& options = {}) {
  static const auto one = make_thread_team(1), two = make_thread_team(2), three = make_thread_team(3),
                    seven = make_thread_team(7), many = make_thread_team(64);
  std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
  Inputs inputs = make_inputs(request, options);
  std::vector<Buffer> expected = run_with(*kernel, request, inputs, nullptr);
  for (ThreadTeam* team : {one.get(), two.get(), three.get(), seven.get(), many.get()}) {
    expect_same_bits(request, expected, run_with(*kernel, request, inputs, team),
                     fmt::format("with {} threads", team->num_threads()));
  }
  BackwardsTeam backwards;
  expect_same_bits(request, expected, run_with(*kernel, request, inputs, &backwards), "with chunks from last to first");
  return backwards.most_chunks;
}

// Calls check(request, range) for the examples of all ops that have a kernel of ours.
template <class F>
void for_each_example(const F& check) {
  for (const OpDef* op : op_registry().all()) {
    if (op->is_alias() || op->is_impure()) continue;
    for (const Example& example : op->examples()) {
      KernelRequest request = request_of(op->name(), example.attrs, {example.inputs.begin(), example.inputs.end()});
      check(request, CompareOptions{
                         .low = example.low, .high = example.high, .top = example.int_high, .bottom = example.int_low});
    }
  }
}

TEST(Threads, EveryExampleHasTheSameBits) {
  for_each_example([](const KernelRequest& request, const CompareOptions& range) {
    ASSERT_NO_THROW(check_teams(request, range)) << request.op;
  });
}

struct LargeCase {
  std::string op;
  Attrs attrs;
  InputTypes inputs;
  CompareOptions options = {};
};

ConvAttrs plane(std::int64_t stride, std::int64_t padding, std::int64_t groups = 1) {
  return {{stride, stride}, {padding, padding}, {1, 1}, groups};
}

// Forward, with and without what follows, and both gradients.
void add_conv(std::vector<LargeCase>& cases, const Shape& x, const Shape& w, const ConvAttrs& attrs) {
  Shape y{x[0], w[0]};
  for (std::size_t i = 0; i < 2; ++i) y.push_back((x[i + 2] + 2 * attrs.padding[i] - w[i + 2]) / attrs.stride[i] + 1);
  cases.push_back({"conv", Attrs::of(attrs), {f32(x), f32(w), f32({w[0]})}});
  const TensorType channels = f32({1, w[0], 1, 1});
  cases.push_back({"conv_affine",
                   Attrs::of(ConvAffineAttrs{attrs, 0}),
                   {f32(x), f32(w), std::nullopt, channels, channels, f32(y)}});
  cases.push_back({"conv_input_grad", Attrs::of(ConvGradAttrs{attrs, x}), {f32(y), f32(w)}});
  cases.push_back({"conv_weight_grad", Attrs::of(ConvGradAttrs{attrs, w}), {f32(x), f32(y)}});
}

std::vector<LargeCase> products() {
  std::vector<LargeCase> cases;
  auto add = [&](Shape a, Shape b, bool transpose_a, bool transpose_b) {
    cases.push_back({"dot", Attrs::of(DotAttrs{transpose_a, transpose_b}), {f32(std::move(a)), f32(std::move(b))}});
  };
  add({700, 200}, {200, 300}, false, false);  // rows, the last chunk shorter
  add({200, 700}, {200, 300}, true, false);
  add({700, 200}, {300, 200}, false, true);
  add({100, 300}, {300, 900}, false, false);  // columns
  add({300, 100}, {300, 900}, true, false);
  add({100, 300}, {900, 300}, false, true);
  add({13, 100, 70}, {13, 70, 90}, false, false);  // a batch
  add({12, 70, 100}, {12, 90, 70}, true, true);
  add({12, 600}, {600, 2000}, false, false);  // our own loops: summands, columns, rows, a batch
  add({12, 600}, {2000, 600}, false, true);
  add({5000, 12}, {12, 300}, false, false);
  add({70, 48, 48}, {70, 48, 48}, false, false);
  add({999, 1001}, {1001, 1}, false, false);  // a matrix by a vector: rows, columns, batches of both
  add({1001, 999}, {1001, 1}, true, false);
  add({30, 1, 200}, {30, 301, 200}, false, true);
  add({30, 1, 200}, {30, 200, 301}, false, false);
  add({40, 90}, {90, 1000}, false, false);  // columns of what has few summands, and a layer of a batch of 40
  add({40, 320}, {256, 320}, false, true);
  add({40, 250}, {250, 320}, false, false);
  add({250, 40}, {250, 320}, true, false);
  add({40, 250}, {40, 320}, true, false);
  return cases;
}

std::vector<LargeCase> convolutions() {
  std::vector<LargeCase> cases;
  add_conv(cases, {6, 32, 28, 28}, {32, 32, 3, 3}, plane(1, 1));   // the gradient by weights: a sum over images
  add_conv(cases, {4, 128, 6, 6}, {128, 128, 3, 3}, plane(1, 1));  // parts of the channels
  add_conv(cases, {8, 96, 56, 56}, {96, 1, 3, 3}, plane(2, 1, 96));
  add_conv(cases, {8, 96, 28, 30}, {96, 1, 5, 5}, plane(1, 2, 96));
  add_conv(cases, {7, 250, 14, 14}, {250, 1, 3, 3}, plane(1, 1, 250));
  cases.push_back({"conv", Attrs::of(plane(1, 1)), {f32({1, 48, 40, 40}), f32({64, 48, 3, 3}), f32({64})}});
  add_conv(cases, {5, 48, 20, 20}, {48, 24, 3, 3}, plane(1, 0, 2));
  add_conv(cases, {6, 96, 30, 31}, {80, 96, 1, 1}, plane(1, 0));  // products of matrices
  add_conv(cases, {1, 200, 30, 30}, {120, 200, 1, 1}, plane(1, 0));
  add_conv(cases, {3, 128, 30, 30}, {160, 128, 1, 1}, plane(2, 0));
  add_conv(cases, {8, 256, 2, 2}, {256, 256, 3, 3}, plane(1, 1));  // many weights, few pixels
  add_conv(cases, {70, 4, 20, 20}, {12, 4, 3, 3}, plane(1, 1));    // one image per lane
  return cases;
}

// Lines of images that lie batch last.
std::vector<LargeCase> batch_last() {
  const Shape x{4, 30, 31, 40}, w{12, 4, 3, 3}, y{12, 30, 29, 40}, pooled{12, 15, 14, 40};
  const ConvLastAttrs attrs{{1, 0}, {1, 1}};
  const ConvLastPoolAttrs pool{attrs, {2, 2}};
  const TensorType place{DType::kU8, pooled};
  return {
      {"conv_last", Attrs::of(attrs), {f32(x), f32(w), f32({12})}},
      {"conv_last_pool", Attrs::of(pool), {f32(x), f32(w), f32({12})}},
      {"conv_last_input_grad", Attrs::of(ConvLastGradAttrs{attrs, x}), {f32(y), f32(w)}},
      {"conv_last_weight_grad", Attrs::of(ConvLastGradAttrs{attrs, w}), {f32(x), f32(y)}},
      {"conv_last_pool_weight_grad",
       Attrs::of(ConvLastPoolGradAttrs{pool, w}),
       {f32(x), f32(pooled), place},
       {.top = 4}},
      {"max_pool_last", Attrs::of(MaxPoolLastAttrs{{2, 2}}), {f32(y)}},
      {"max_pool_last_grad", Attrs::of(MaxPoolLastGradAttrs{{2, 2}, y}), {f32(pooled), place}, {.top = 4}},
  };
}

std::vector<LargeCase> rows_and_sums() {
  return {
      {"reduce_sum", Attrs::of(ReduceAttrs{{0, 1}}), {f32({1000, 1001})}},
      {"reduce_max", Attrs::of(ReduceAttrs{{1}}), {f32({1000, 1001})}},
      {"reduce_sum", Attrs::of(ReduceAttrs{{0}}), {f32({1000, 1001})}},
      {"reduce_sum", Attrs::of(ReduceAttrs{{1}}), {f32({50, 100, 201})}},
      {"reduce_min", Attrs::of(ReduceAttrs{{0, 2}}), {f32({30, 40, 901})}},
      {"reduce_prod", Attrs::of(ReduceAttrs{{1}}), {f32({1000, 1001})}, {.low = 0.99, .high = 1.01}},
      {"reduce_prod_grad",
       Attrs::of(ReduceAttrs{{1}}),
       {f32({1000, 1001}), f32({1000, 1})},
       {.low = 0.99, .high = 1.01}},
      {"reduce_prod_grad",
       Attrs::of(ReduceAttrs{{0}}),
       {f32({1000, 1001}), f32({1, 1001})},
       {.low = 0.99, .high = 1.01}},
      {"reduce_sum", Attrs::of(ReduceAttrs{{0, 1}}), {i32({1000, 1001})}},
      {"reduce_max", Attrs::of(ReduceAttrs{{0}}), {i32({1000, 1001})}, {.top = 1000}},
      {"argreduce", Attrs::of(ArgReduceAttrs{1, true, false}), {f32({1000, 1001})}},
      {"argreduce", Attrs::of(ArgReduceAttrs{0, false, false}), {f32({300, 3001})}},
      {"cumsum", Attrs::of(ScanAttrs{1, false, false}), {f32({1000, 1001})}},
      {"cumsum", Attrs::of(ScanAttrs{0, true, true}), {f32({300, 3001})}},
      {"cumprod", Attrs::of(ScanAttrs{1, false, false}), {i32({50, 100, 201})}, {.top = 4, .bottom = -3}},
      {"square_sum", Attrs(), {f32({999999})}},
      {"nll",
       Attrs::of(NllAttrs{}),
       {f32({40, 11, 2001}), i32({40, 2001}), f32({11})},
       {.low = 0.5, .high = 2, .top = 11}},
      {"nll_grad",
       Attrs::of(NllAttrs{}),
       {i32({40, 2001}), f32({11}), f32({}), f32({}), f32({40, 11, 2001})},
       {.low = 0.5, .high = 2, .top = 11}},
      {"cross_entropy",
       Attrs::of(CrossEntropyAttrs{{3, "mean"}, 0.1}),
       {f32({40, 11, 2001}), i32({40, 2001}), f32({11})},
       {.low = 0.5, .high = 2, .top = 11}},
      {"cross_entropy", Attrs::of(CrossEntropyAttrs{}), {f32({300, 2001}), i32({300}), std::nullopt}, {.top = 2001}},
      {"cross_entropy_grad",
       Attrs::of(CrossEntropyAttrs{{3, "mean"}, 0.1}),
       {f32({40, 11, 2001}), i32({40, 2001}), f32({11}), f32({}), f32({}), f32({40, 2001}), f32({40, 2001})},
       {.low = 0.5, .high = 2, .top = 11}},
      {"cross_entropy_grad",
       Attrs::of(CrossEntropyAttrs{}),
       {f32({300, 2001}), i32({300}), std::nullopt, f32({}), f32({}), f32({300}), f32({300})},
       {.low = 0.5, .high = 2, .top = 2001}},
      {"softmax", Attrs::of(SoftmaxAttrs{1}), {f32({1000, 333})}},
      {"log_softmax", Attrs::of(SoftmaxAttrs{1}), {f32({40, 21, 401})}},
      {"log_softmax", Attrs::of(SoftmaxAttrs{0}), {f32({21, 16001})}},
      {"softmax_grad", Attrs::of(SoftmaxAttrs{1}), {f32({40, 21, 401}), f32({40, 21, 401})}},
      {"softmax_grad", Attrs::of(SoftmaxAttrs{0}), {f32({21, 16001}), f32({21, 16001})}},
      {"log_softmax_grad", Attrs::of(SoftmaxAttrs{1}), {f32({1000, 333}), f32({1000, 333})}},
      {"attention",
       Attrs::of(AttentionAttrs{.scale = 0.2}),
       {f32({3, 130, 5, 33}), f32({3, 70, 5, 33}), f32({3, 70, 5, 20}), f32({3, 1, 1, 70})}},
      {"attention", Attrs::of(AttentionAttrs{}), {f32({1, 500, 1, 33}), f32({1, 801, 1, 33}), f32({1, 801, 1, 20})}},
      {"attention_grad",
       Attrs::of(AttentionAttrs{.scale = 0.2}),
       {f32({3, 130, 5, 32}), f32({3, 700, 5, 32}), f32({3, 700, 5, 16}), f32({3, 5, 130}), f32({3, 5, 130}),
        f32({3, 130, 5, 16}), f32({3, 1, 1, 700})},
       {.low = 0.2}},
      {"normalize", Attrs::of(NormalizeAttrs{{1}}), {f32({1000, 333})}},
      {"normalize", Attrs::of(NormalizeAttrs{{0, 2}}), {f32({30, 40, 401})}},
      {"normalize", Attrs::of(NormalizeAttrs{{0}}), {f32({100, 4001})}},
      {"normalize", Attrs::of(NormalizeAttrs{{1}}), {f32({50, 100, 201})}},
      {"normalize_grad", Attrs::of(NormalizeAttrs{{1}}), {f32({1000, 333}), f32({1000, 1}), f32({1000, 333})}},
      {"normalize_grad", Attrs::of(NormalizeAttrs{{0}}), {f32({100, 4001}), f32({1, 4001}), f32({100, 4001})}},
      {"normalize_grad", Attrs::of(NormalizeAttrs{{1}}), {f32({50, 100, 201}), f32({50, 1, 201}), f32({50, 100, 201})}},
      {"lstm_gates", {}, {f32({50, 804}), f32({50, 804}), f32({804}), f32({50, 201})}},
      {"lstm_gates_grad", {}, {f32({50, 804}), f32({50, 201}), f32({50, 201}), f32({50, 201})}},
      {"batch_norm", Attrs::of(BatchNormAttrs{}), {f32({30, 40, 401}), f32({1, 40, 1}), f32({1, 40, 1})}},
      {"batch_norm", Attrs::of(BatchNormAttrs{}), {f32({100, 4001}), f32({1, 4001}), f32({1, 4001})}},
      {"batch_norm_bounded",
       Attrs::of(BoundedBatchNormAttrs{.low = 0, .high = 1}),
       {f32({30, 41, 401}), f32({1, 41, 1}), f32({1, 41, 1}), f32({30, 41, 401})}},
      {"batch_norm_grad",
       Attrs::of(BoundedBatchNormAttrs{.low = 0, .open = true}),
       {f32({30, 41, 401}), f32({1, 41, 1}), f32({1, 41, 1}), f32({1, 41, 1}), f32({1, 41, 1}), f32({30, 41, 401})}},
      {"batch_norm_grad",
       Attrs::of(BoundedBatchNormAttrs{}),
       {f32({100, 4001}), f32({1, 4001}), f32({1, 4001}), f32({1, 4001}), f32({1, 4001}), f32({100, 4001})}},
      {"max_pool", Attrs::of(PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}}), {f32({4, 20, 61, 61})}},
      {"max_pool_grad",
       Attrs::of(MaxPoolGradAttrs{{5, 100, 40, 40}}),
       {f32({5, 100, 20, 20}), i32({5, 100, 20, 20})},
       {.top = 1600}},
  };
}

std::vector<LargeCase> elements() {
  TensorType x = f32({500, 801}), half{DType::kF16, {500, 801}}, flag{DType::kBool, {500, 801}};
  TensorType settings = f32({kNumSettings}), steps = f32({});
  CompareOptions positive{.low = 0.1, .high = 0.9}, rows{.low = 0.1, .high = 0.9, .top = 500};
  return {
      {"full", Attrs::of(FullAttrs{DType::kF32, {500, 801}, 1.5}), {}},
      {"full", Attrs::of(FullAttrs{DType::kBool, {500, 801}, 1}), {}},
      {"exp", Attrs(), {x}},
      {"tanh", Attrs(), {half}},
      {"add", Attrs(), {x, x}},
      {"mul", Attrs(), {half, half}},
      {"sub", Attrs(), {x, f32({801})}},
      {"div", Attrs(), {x, f32({500, 1})}, positive},
      {"add", Attrs(), {f32({200000, 3}), f32({3})}},
      {"mul", Attrs(), {f32({200000, 3}), f32({200000, 1})}},
      {"relu_grad", Attrs(), {x, x}},
      {"lt", Attrs(), {x, x}},
      {"select", Attrs(), {flag, x, f32({801})}},
      {"select", Attrs(), {flag, half, half}},
      {"addcmul", Attrs::of(AddcmulAttrs{0.5}), {x, x, f32({801})}},
      {"sin", Attrs(), {x}},
      {"pow", Attrs(), {x, f32({})}, positive},
      {"rem_floor", Attrs(), {x, f32({801})}, positive},
      {"logical_or", Attrs(), {flag, flag}},
      {"logical_not", Attrs(), {flag}},
      {"mul", Attrs(), {i32({500, 801}), i32({500, 1})}, {.top = 9, .bottom = -9}},
      {"cast", Attrs::of(CastAttrs{DType::kF16}), {x}},
      {"cast", Attrs::of(CastAttrs{DType::kF32}), {flag}},
      {"narrow", Attrs::of(NarrowAttrs{"x"}), {TensorType{DType::kI64, {500, 801}}}, {.top = 9, .bottom = -9}},
      {"full", Attrs::of(FullAttrs{DType::kBF16, {500, 801}, 0.3}), {}},
      {"random_uniform", Attrs::of(RandomAttrs{DType::kF32, {500, 801}, 5}), {}},
      {"random_normal", Attrs::of(RandomAttrs{DType::kF32, {500, 801}, 5}), {}},
      {"dropout", Attrs::of(DropoutAttrs{0.3, 5}), {x}},
      {"round_at_random", Attrs::of(RoundAtRandomAttrs{5}), {x}},
      {"transpose", Attrs::of(TransposeAttrs{{1, 0}}), {x}},
      {"transpose", Attrs::of(TransposeAttrs{{0, 2, 1}}), {f32({100, 50, 81})}},
      {"sgd", Attrs::of(SgdAttrs{true, true}), {x, x, settings, steps, x}, positive},
      {"sgd", Attrs::of(SgdAttrs{false, false}), {x, x, settings, steps}, positive},
      {"sgd", Attrs::of(SgdAttrs{false, false}), {x, f32({801}), settings, steps}, positive},
      {"sgd", Attrs::of(SgdAttrs{true, false}), {x, f32({500, 1}), settings, steps, x}, positive},
      {"sgd", Attrs::of(SgdAttrs{false, false}), {half, TensorType{DType::kF16, {}}, settings, steps}, positive},
      {"adam", Attrs::of(AdamAttrs{}), {x, x, settings, steps, x, x}, positive},
      {"dot_sgd",
       Attrs::of(SgdAttrs{true, true}),
       {f32({700, 801}), f32({90, 700}), f32({90, 801}), settings, steps, f32({700, 801})},
       positive},
      {"dot_adam", Attrs::of(AdamAttrs{}), {x, f32({16, 500}), f32({16, 801}), settings, steps, x, x}, positive},
      {"rows_sgd", Attrs::of(SgdAttrs{true, false}), {x, i32({300}), f32({300, 801}), settings, steps, x}, rows},
      {"rows_adam", Attrs::of(AdamAttrs{}), {x, i32({300}), f32({300, 801}), settings, steps, x, x}, rows},
      {"rmsprop", Attrs::of(RmspropAttrs{true, false, true}), {x, x, settings, steps, x, x}, positive},
      {"lamb", Attrs::of(LambAttrs{}), {x, x, settings, steps, x, x}, positive},
      {"lamb_norms", Attrs::of(LambNormsAttrs{true, 801'000, 2}), {x, x, settings, steps, x, x}, positive},
      {"lamb_step", Attrs::of(LambAttrs{}), {x, x, settings, steps, x, x, TensorType{DType::kF64, {2}}}, positive},
  };
}

std::vector<LargeCase> moves() {
  Shape x{8, 20, 61, 61};
  TensorType u8{DType::kU8, {1700, 900}};
  SliceAttrs every_other{{0, 1}, {2000, 799}, {2, 2}};
  RemapAttrs around{{2, 60, 1, 1, 2, 0, 1, 61, 2, 0, 1, 1, 3, 60, 1, 1, 3, 0, 1, 61, 3, 0, 1, 1}, {}};
  RemapAttrs around_grad{around.runs, x};
  return {
      {"transpose", Attrs::of(TransposeAttrs{{0, 2, 3, 1}}), {f32(x)}},
      {"transpose", Attrs::of(TransposeAttrs{{1, 0}}), {u8}, {.top = 200}},
      {"transpose", Attrs::of(TransposeAttrs{{1, 0}}), {f16({3, 300000})}},
      {"transpose", Attrs::of(TransposeAttrs{{1, 0}}), {f32({300000, 3})}},
      {"broadcast", Attrs::of(BroadcastAttrs{{3, 300001}}), {f32({3, 1})}},
      {"broadcast", Attrs::of(BroadcastAttrs{{1000, 801}}), {f32({801})}},
      {"reverse", Attrs::of(ReverseAttrs{{1, 3}}), {f32(x)}},
      {"slice", Attrs::of(every_other), {f32({2000, 801})}},
      {"slice_update", Attrs::of(every_other), {f32({2000, 801}), f32({1000, 399})}},
      {"pad", Attrs::of(PadAttrs{{0, 0, 1, 1}, {0, 0, 1, 2}, {0, 0, 0, 0}, 2}), {f32(x)}},
      {"pad", Attrs::of(PadAttrs{{0, 0, 1, 1}, {0, 0, 1, 2}, {0, 0, 1, 1}, 2}), {f16(x)}},
      {"remap", Attrs::of(around), {f32(x)}},
      {"remap", Attrs::of(RemapAttrs{{1, 7, 1, 499994, 1, 6, -1, 7}, {}}), {f32({2, 500001})}},
      {"pad", Attrs::of(PadAttrs{{300}, {17}, {1}, 2}), {f32({300001})}},
      {"remap_grad", Attrs::of(around_grad), {f32({8, 20, 63, 63})}},
      {"concat", Attrs::of(ConcatAttrs{1}), {f32(x), f32(x)}},
      {"concat", Attrs::of(ConcatAttrs{1}), {f32({5000, 101}), f32({5000, 3}), f32({5000, 200})}},
      {"concat", Attrs::of(ConcatAttrs{1}), {f32({501, 301}), f32({501, 0}), f32({501, 150})}},
  };
}

std::vector<LargeCase> indices() {
  CompareOptions hundred{.top = 100};
  std::vector<LargeCase> cases = {
      {"take", Attrs::of(TakeAttrs{0}), {f32({100, 300}), i32({4000})}, hundred},
      {"take", Attrs::of(TakeAttrs{1}), {f32({300, 100}), i32({2000})}, hundred},
      {"gather", Attrs::of(GatherAttrs{1}), {f32({1000, 100}), i32({1000, 301})}, hundred},
      {"gather", Attrs::of(GatherAttrs{0}), {f32({100, 1000}), i32({301, 1000})}, hundred},
  };
  for (const char* mode : {"set", "add", "max"}) {
    auto add = [&](const char* op, std::int64_t axis, Shape x, Shape index, Shape update) {
      cases.push_back({op, Attrs::of(ScatterAttrs{axis, mode}), {f32(x), i32(index), f32(update)}, hundred});
    };
    add("scatter_rows", 0, {100, 300}, {4000}, {4000, 300});
    add("scatter_rows", 1, {50, 100, 12}, {2000}, {50, 2000, 12});
    add("scatter", 1, {1000, 100}, {1000, 301}, {1000, 301});
    add("scatter", 0, {100, 1000}, {301, 1000}, {301, 1000});
    add("scatter", 1, {40, 100, 90}, {40, 100, 80}, {40, 100, 80});
  }
  cases.push_back({"sum_rows", Attrs::of(SumRowsAttrs{100}), {f32({100, 130}), i32({9000}), i32({9000})}, hundred});
  cases.push_back({"sort", Attrs::of(SortAttrs{1, true}), {f32({50, 400, 3})}});
  cases.push_back({"sort", Attrs::of(SortAttrs{1, true, 5}), {f32({50, 5000})}});
  return cases;
}

// Whole planes, and bands of few large ones.
std::vector<LargeCase> windows() {
  PoolAttrs window{{3, 3}, {2, 2}, {1, 1}, {1, 1}}, block{{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}};
  Shape many{4, 20, 61, 61}, few{1, 2, 601, 601};
  ResizeAttrs doubled{"linear", {122, 122}, {0.5, 0.5}}, stretched{"cubic", {700, 500}, {601.0 / 700, 601.0 / 500}};
  ResizeAttrs doubled_grad = doubled, stretched_grad = stretched;
  doubled_grad.shape = many;
  stretched_grad.shape = few;
  return {
      {"avg_pool", Attrs::of(window), {f32(many)}},
      {"avg_pool", Attrs::of(window), {f32(few)}},
      {"avg_pool_grad", Attrs::of(AvgPoolGradAttrs{window, many}), {f32({4, 20, 31, 31})}},
      {"avg_pool_grad", Attrs::of(AvgPoolGradAttrs{window, few}), {f32({1, 2, 301, 301})}},
      {"adaptive_avg_pool", Attrs::of(AdaptiveAvgPoolAttrs{{7, 7}, {}}), {f32(many)}},
      {"adaptive_avg_pool_grad", Attrs::of(AdaptiveAvgPoolAttrs{{7, 7}, many}), {f32({4, 20, 7, 7})}},
      {"max_pool", Attrs::of(block), {f32({2, 8, 20, 31, 31})}},
      {"resize", Attrs::of(doubled), {f32(many)}},
      {"resize", Attrs::of(stretched), {f32(few)}},
      {"resize_grad", Attrs::of(doubled_grad), {f32({4, 20, 122, 122})}},
      {"resize_grad", Attrs::of(stretched_grad), {f32({1, 2, 700, 500})}},
  };
}

// Half or bfloat16.
std::vector<LargeCase> narrow_floats(DType dtype) {
  auto of = [dtype](Shape shape) { return TensorType{dtype, std::move(shape)}; };
  Shape x{4, 20, 61, 61};
  ConvAttrs same = plane(1, 1);
  CompareOptions hundred{.top = 100};
  return {
      {"conv", Attrs::of(same), {of({6, 32, 28, 28}), of({32, 32, 3, 3}), of({32})}},
      {"conv", Attrs::of(same), {of({1, 48, 40, 40}), of({64, 48, 3, 3}), of({64})}},
      {"conv_input_grad", Attrs::of(ConvGradAttrs{same, {6, 32, 28, 28}}), {of({6, 32, 28, 28}), of({32, 32, 3, 3})}},
      {"conv_weight_grad", Attrs::of(ConvGradAttrs{same, {32, 32, 3, 3}}), {of({6, 32, 28, 28}), of({6, 32, 28, 28})}},
      {"conv_weight_grad", Attrs::of(ConvGradAttrs{same, {128, 128, 3, 3}}), {of({4, 128, 6, 6}), of({4, 128, 6, 6})}},
      {"conv", Attrs::of(plane(2, 0)), {of({3, 128, 30, 30}), of({160, 128, 1, 1}), of({160})}},
      {"dot", Attrs::of(DotAttrs{false, true}), {of({700, 200}), of({300, 200})}},
      {"dot", Attrs::of(DotAttrs{true, false}), {of({300, 200}), of({300, 1900})}},
      {"dot", Attrs::of(DotAttrs{false, true}), {of({100, 300}), of({1900, 300})}},
      {"dot", Attrs::of(DotAttrs{true, true}), {of({24, 70, 100}), of({24, 90, 70})}},
      {"max_pool", Attrs::of(PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}}), {of(x)}},
      {"avg_pool", Attrs::of(PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}}), {of(x)}},
      {"normalize", Attrs::of(NormalizeAttrs{{0, 2, 3}}), {of(x)}},
      {"reduce_sum", Attrs::of(ReduceAttrs{{0, 2, 3}}), {of(x)}},
      {"reduce_sum", Attrs::of(ReduceAttrs{{0, 1}}), {of({1000, 1001})}},
      {"reduce_max", Attrs::of(ReduceAttrs{{0}}), {of({1000, 1001})}},
      {"softmax", Attrs::of(SoftmaxAttrs{1}), {of({1001, 333})}},
      {"log_softmax", Attrs::of(SoftmaxAttrs{0}), {of({21, 16001})}},
      {"softmax_grad", Attrs::of(SoftmaxAttrs{2}), {of({10, 101, 333}), of({10, 101, 333})}},
      {"log_softmax_grad", Attrs::of(SoftmaxAttrs{1}), {of({40, 21, 401}), of({40, 21, 401})}},
      {"scatter_rows", Attrs::of(ScatterAttrs{0, "add"}), {of({100, 300}), i32({4000}), of({4000, 300})}, hundred},
      {"scatter_rows",
       Attrs::of(ScatterAttrs{1, "mul"}),
       {of({50, 100, 12}), i32({2000}), of({50, 2000, 12})},
       hundred},
      {"adam",
       Attrs::of(AdamAttrs{}),
       {of(x), of(x), f32({kNumSettings}), f32({}), f32(x), of(x)},
       {.low = 0.1, .high = 0.9}},
      {"square_sum", Attrs(), {of(x)}},
      {"gradient_statistics", Attrs::of(GradientStatisticsAttrs{0.5}), {of(x)}},
  };
}

std::vector<LargeCase> narrow_floats() {
  std::vector<LargeCase> cases = narrow_floats(DType::kF16), more = narrow_floats(DType::kBF16);
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

void check_large(const std::vector<LargeCase>& cases) {
  for (const LargeCase& c : cases) {
    KernelRequest request = request_of(c.op, c.attrs, c.inputs);
    EXPECT_GT(check_teams(request, c.options), 1) << to_string(request) << " is not dealt out; take a larger shape";
  }
}

TEST(Threads, ProductsHaveTheSameBits) { check_large(products()); }
TEST(Threads, ConvolutionsHaveTheSameBits) { check_large(convolutions()); }
TEST(Threads, ImagesThatLieBatchLastHaveTheSameBits) { check_large(batch_last()); }
TEST(Threads, RowsAndSumsHaveTheSameBits) { check_large(rows_and_sums()); }
TEST(Threads, NarrowFloatsHaveTheSameBits) { check_large(narrow_floats()); }
TEST(Threads, ElementsHaveTheSameBits) { check_large(elements()); }
TEST(Threads, WindowsHaveTheSameBits) { check_large(windows()); }
TEST(Threads, MovesHaveTheSameBits) { check_large(moves()); }
TEST(Threads, IndicesHaveTheSameBits) { check_large(indices()); }

// Enough for each of 64 threads where there is work for them.
TEST(Threads, LargeWorkIsCutFinely) {
  const Shape large{128, 64, 1024};
  const std::vector<LargeCase> cases = {
      {"relu", Attrs(), {f32(large)}},
      {"add", Attrs(), {f32(large), f32({1024})}},
      {"softmax", Attrs::of(SoftmaxAttrs{-1}), {f32(large)}},
      {"reduce_sum", Attrs::of(ReduceAttrs{{2}}), {f32({256, 128, 1024})}},
      {"transpose", Attrs::of(TransposeAttrs{{0, 2, 1}}), {f32(large)}},
      {"dot", Attrs::of(DotAttrs{}), {f32({12288, 128}), f32({128, 256})}},
      {"dot", Attrs::of(DotAttrs{}), {f32({128, 256, 128}), f32({128, 128, 64})}},
      {"conv", Attrs::of(plane(1, 1)), {f32({64, 64, 14, 14}), f32({64, 64, 3, 3}), f32({64})}},
      {"conv", Attrs::of(plane(1, 1)), {f32({256, 8, 24, 24}), f32({12, 8, 5, 5}), f32({12})}},
  };
  for (const LargeCase& c : cases) {
    KernelRequest request = request_of(c.op, c.attrs, c.inputs);
    std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
    BackwardsTeam team(64);
    run_with(*kernel, request, make_inputs(request, c.options), &team);
    EXPECT_GE(team.most_chunks, 64) << to_string(request);
  }
}

// Few rows of tiles and many outputs: parts are cut in ways that want slots of different sizes, and more of them than
// there can be slots.
TEST(Threads, WinogradHasSlotsForAnyNumberOfThreads) {
  std::vector<LargeCase> cases;
  add_conv(cases, {1, 48, 53, 58}, {1280, 48, 3, 3}, plane(1, 1));
  add_conv(cases, {1, 1280, 9, 9}, {48, 1280, 3, 3}, plane(1, 1));
  for (const LargeCase& c : cases) {
    KernelRequest request = request_of(c.op, c.attrs, c.inputs);
    request.candidate = "winograd";
    std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
    const Inputs inputs = make_inputs(request, c.options);
    const std::vector<Buffer> expected = run_with(*kernel, request, inputs, nullptr);
    for (std::size_t num_threads : {3, 5, 6, 7, 9, 70}) {
      const auto team = make_thread_team(num_threads);
      expect_same_bits(request, expected, run_with(*kernel, request, inputs, team.get()),
                       fmt::format("with {} threads", num_threads));
    }
    BackwardsTeam many(70);
    run_with(*kernel, request, inputs, &many);
    EXPECT_LE(many.most_chunks, 64) << to_string(request);
  }
}

// Halves of vectors of images, and rows that are cut off from an image of which there are too few for all threads: with
// borders, steps and gaps.
TEST(Threads, ImagesInLanesHaveTheSameBits) {
  std::vector<LargeCase> cases;
  const std::int64_t lanes = 16;
  add_conv(cases, {lanes, 1, 28, 28}, {5, 1, 3, 3}, plane(1, 0));
  add_conv(cases, {lanes, 5, 29, 23}, {12, 5, 5, 5}, plane(1, 2));
  add_conv(cases, {lanes, 6, 31, 30}, {12, 6, 3, 3}, plane(2, 1));
  add_conv(cases, {lanes - 2, 6, 33, 30}, {12, 6, 3, 5}, {{3, 2}, {1, 3}, {2, 1}, 1});
  for (std::int64_t images : {12, 20, 24, 40, 52, 56, 96}) {
    add_conv(cases, {images, 3, 30, 30}, {10, 3, 5, 5}, plane(1, 1));
  }
  add_conv(cases, {24, 2, 7, 9}, {12, 2, 3, 3}, plane(1, 0));  // too few rows to cut
  for (const LargeCase& c : cases) {
    KernelRequest request = request_of(c.op, c.attrs, c.inputs);
    check_teams(request);
    CompareOptions options;
    options.tolerance = 2e-5;
    compare(c.op, c.attrs, c.inputs, options);
  }
}

TEST(Threads, ChunksEqualTheReference) {
  for (const auto& cases :
       {products(), convolutions(), batch_last(), rows_and_sums(), elements(), moves(), indices(), windows()}) {
    for (const LargeCase& c : cases) {
      CompareOptions options = c.options;
      options.tolerance = 2e-5;
      compare(c.op, c.attrs, c.inputs, options);
    }
  }
}

// The position counts from the start of the tensor, whichever chunk finds the mistake.
TEST(Threads, AnErrorNamesTheFirstWrongPlace) {
  KernelRequest request = request_of("max_pool_grad", Attrs::of(MaxPoolGradAttrs{{5, 100, 40, 40}}),
                                     {f32({5, 100, 20, 20}), i32({5, 100, 20, 20})});
  std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
  Inputs inputs = make_inputs(request, {.top = 1600});
  for (std::int64_t wrong : {90000, 150000}) inputs.buffers[1].as<std::int32_t>()[wrong] = 1600;
  auto team = make_thread_team(3);
  try {
    run_with(*kernel, request, inputs, team.get());
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("position 90000 "), std::string::npos) << error.what();
  }
}

// Replicas share kernels.
TEST(Threads, AKernelRunsOnSeveralThreadsAtOnce) {
  for (const auto& cases : {products(), convolutions(), batch_last(), rows_and_sums(), elements(), moves(), indices(),
                            windows(), narrow_floats()}) {
    for (const LargeCase& c : cases) {
      KernelRequest request = request_of(c.op, c.attrs, c.inputs);
      std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
      Inputs first = make_inputs(request, c.options, 1), second = make_inputs(request, c.options, 2);
      std::vector<Buffer> expected = run_with(*kernel, request, first, nullptr), actual;
      std::thread other([&] { run_with(*kernel, request, second, nullptr); });
      actual = run_with(*kernel, request, first, nullptr);
      other.join();
      expect_same_bits(request, expected, actual, "while another thread runs the kernel");
    }
  }
}

// All operands one element behind a border of 64 bytes.
void check_shifted(const KernelRequest& request, const CompareOptions& options) {
  std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
  Inputs inputs = make_inputs(request, options);
  std::vector<Buffer> expected = run_with(*kernel, request, inputs, nullptr), memory;
  std::vector<const void*> pointers;
  std::vector<void*> results;
  auto shifted = [&](const TensorType& type) {
    memory.emplace_back(type.bytes() + size_of(type.dtype));
    return memory.back().as<std::byte>() + size_of(type.dtype);
  };
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    pointers.push_back(nullptr);
    if (!request.inputs[i].present) continue;
    const TensorType& type = request.inputs[i].type;
    pointers.back() = std::memcpy(shifted(type), inputs.pointers[i], type.bytes());
  }
  for (const TensorType& type : request.outputs) results.push_back(shifted(type));
  Buffer workspace(kernel->workspace_bytes());
  StepContext step{.seed = 42, .step = 3};
  kernel->run(KernelArgs{pointers, results, workspace.get(), &step});
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(std::memcmp(expected[i].get(), results[i], request.outputs[i].bytes()), 0)
        << to_string(request) << ", output " << i << " differs with operands that begin one element later";
  }
  for (const Buffer& buffer : memory) EXPECT_TRUE(buffer.intact()) << to_string(request);
}

// Inputs and outputs of a program lie where the caller has them.
TEST(Threads, NothingDependsOnWhereOperandsBegin) {
  for_each_example(check_shifted);
  for (const auto& cases :
       {products(), convolutions(), batch_last(), rows_and_sums(), elements(), moves(), indices(), narrow_floats()}) {
    for (const LargeCase& c : cases) check_shifted(request_of(c.op, c.attrs, c.inputs), c.options);
  }
}

TEST(Threads, TheFirstIntegerThatDoesNotFitIsNamed) {
  const KernelRequest request =
      request_of("narrow", Attrs::of(NarrowAttrs{"x"}), {TensorType{DType::kI64, {500, 801}}});
  std::vector<std::int64_t> x(500 * 801, -5);
  for (std::size_t i = 99'000; i < x.size(); i += 10'000) x[i] = (std::int64_t{1} << 40) + static_cast<std::int64_t>(i);
  for (std::size_t num_threads : {1, 2, 3}) {
    const auto team = make_thread_team(num_threads);
    try {
      run_kernel(cpu(), request, {x.data()}, {.team = team.get()});
      FAIL() << "no error on " << num_threads << " threads";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("input \"x\" holds 1099511726776 "), std::string::npos) << error.what();
    }
  }
}

TEST(Threads, ProductsDoNotDependOnAlignment) {
  for (const LargeCase& c : products()) {
    KernelRequest request = request_of(c.op, c.attrs, c.inputs);
    std::unique_ptr<Kernel> kernel = cpu().create_kernel(request);
    Inputs inputs = make_inputs(request, {});
    std::vector<Buffer> expected = run_with(*kernel, request, inputs, nullptr);
    for (std::size_t shift : {4, 28, 60}) {
      Inputs shifted;
      for (std::size_t i = 0; i < 2; ++i) {
        std::size_t bytes = request.inputs[i].type.bytes();
        shifted.buffers.emplace_back(bytes + shift);
        shifted.pointers.push_back(shifted.buffers[i].as<std::byte>() + shift);
        std::memcpy(shifted.buffers[i].as<std::byte>() + shift, inputs.pointers[i], bytes);
      }
      expect_same_bits(request, expected, run_with(*kernel, request, shifted, nullptr),
                       fmt::format("with inputs moved by {} bytes", shift));
    }
  }
}

}  // namespace
}  // namespace aspen::testing
