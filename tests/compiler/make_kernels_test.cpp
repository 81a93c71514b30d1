// Kernels are made once for equal requests, and on several threads.
#include "aspen/compiler/make_kernels.h"

#include <atomic>
#include <set>

#include "aspen/ops/build.h"
#include "aspen/ops/random/random.h"
#include "harness.h"

namespace aspen::testing {
namespace {

// The reference backend, but it counts what it is asked for.
class CountingBackend final : public Backend {
 public:
  std::string name() const override { return "counting"; }
  std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const override {
    ++num_made;
    return reference().create_kernel(request);
  }
  mutable std::atomic<int> num_made = 0;
};

KernelRequest negation(Shape shape, DType dtype = DType::kF32) {
  TensorType type{dtype, std::move(shape)};
  return {.op = "neg", .attrs = {}, .inputs = {{.type = type}}, .outputs = {type}};
}

MadeKernels make_all(const std::vector<KernelRequest>& requests, const Backend& backend) {
  std::vector<const KernelRequest*> pointers;
  for (const KernelRequest& request : requests) pointers.push_back(&request);
  return make_kernels(pointers, backend);
}

TEST(MakeKernels, EqualRequestsShareOne) {
  CountingBackend backend;
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 1000; ++i) requests.push_back(negation({1 + i % 50}));
  MadeKernels made = make_all(requests, backend);
  EXPECT_EQ(backend.num_made, 50);
  EXPECT_EQ(made.num_made, 50u);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_NE(made.of_request[i].kernel, nullptr);
    ASSERT_EQ(made.of_request[i].kernel, made.of_request[i % 50].kernel);
  }
}

TEST(MakeKernels, RequestsThatDifferAnywhereDoNot) {
  const KernelRequest plain = negation({4});
  std::vector<KernelRequest> requests{plain, negation({2, 2}), negation({4}, DType::kF16), plain, plain, plain, plain};
  requests[3].op = "exp";
  requests[4].half_partials = true;
  requests[5].inputs[0].present = false;
  requests[6].outputs[0].shape = {5};
  for (std::int64_t stream : {1, 2}) {
    KernelRequest dropout = negation({4});
    dropout.op = "dropout";
    dropout.attrs = Attrs::of(DropoutAttrs{.p = 0.5, .stream = stream});
    requests.push_back(dropout);
  }
  CountingBackend backend;
  EXPECT_EQ(make_all(requests, backend).num_made, requests.size());

  KernelRequest half = negation({4}, DType::kF16), other_stream = half, other_draws = half;
  half.rounding = {.stream = 1};
  other_stream.rounding = {.stream = 2};
  other_draws.rounding = {.stream = 1, .draws = Rounding::Draws::kShared};
  EXPECT_EQ(make_all({half, other_stream, other_draws, half}, backend).num_made, 3u);
}

TEST(MakeKernels, AnErrorIsThatOfItsRequest) {
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(negation({1 + i}));
  requests[70].op = "no_such_op";
  MadeKernels made = make_all(requests, reference());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(made.of_request[i].error != nullptr, i == 70);
    EXPECT_EQ(made.of_request[i].kernel == nullptr, i == 70);
  }
  EXPECT_THROW(std::rethrow_exception(made.of_request[70].error), UserError);
}

// Of many equal layers there is one kernel for each kind of op.
TEST(MakeKernels, LayersOfAProgramShareThem) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", {DType::kF32, {4, 8}});
  Value* w = graph.add_input("w", {DType::kF32, {8, 8}});
  for (int i = 0; i < 40; ++i) x = build::unary(b, "tanh", build::dot(b, x, w));
  graph.add_output("y", x);
  CountingBackend backend;
  auto program = compile(graph, {}, backend);
  std::set<const Kernel*> kernels;
  for (const Instruction& instruction : program->step[0].instructions) kernels.insert(instruction.kernel.get());
  EXPECT_EQ(program->step[0].instructions.size(), 80u);
  EXPECT_EQ(kernels.size(), 2u);
  EXPECT_EQ(backend.num_made, 2);
}

}  // namespace
}  // namespace aspen::testing
