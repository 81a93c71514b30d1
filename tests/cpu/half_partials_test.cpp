// Sums kept in half piece by piece: close to sums in float, of pieces that do not divide the whole, with a bias, in
// less workspace.
#include "aspen/backends/reference/half_partials.h"

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/ops/conv/conv.h"
#include "aspen/ops/dot/dot.h"
#include "tests/cpu/compare.h"

namespace aspen::testing {
namespace {

struct Sum {
  std::string op;
  Attrs attrs;
  InputTypes inputs;
};

std::vector<Sum> sums() {
  ConvAttrs same{{1, 1}, {1, 1}, {1, 1}, 1};
  return {{"dot", Attrs::of(DotAttrs{false, false}), {f16({9, 1000}), f16({1000, 7})}},
          {"dot", Attrs::of(DotAttrs{true, true}), {f16({2, 600, 5}), f16({2, 8, 600})}},
          {"conv", Attrs::of(same), {f16({2, 70, 5, 6}), f16({3, 70, 3, 3}), f16({3})}},
          {"conv", Attrs::of(same), {f16({2, 70, 5, 6}), f16({3, 70, 3, 3}), std::nullopt}},
          {"conv_input_grad", Attrs::of(ConvGradAttrs{same, {2, 3, 5, 6}}), {f16({2, 70, 5, 6}), f16({70, 3, 3, 3})}},
          {"conv_weight_grad", Attrs::of(ConvGradAttrs{same, {4, 3, 3, 3}}), {f16({40, 3, 5, 6}), f16({40, 4, 5, 6})}}};
}

TEST(HalfPartials, AreCloseToSumsInFloat) {
  std::unique_ptr<Backend> reference = make_reference_backend(), cpu = make_cpu_backend();
  for (const Sum& sum : sums()) {
    KernelRequest exact = request_of(sum.op, sum.attrs, sum.inputs), request = exact;
    request.half_partials = true;
    std::mt19937 random(1);
    std::vector<Buffer> buffers;
    std::vector<const void*> inputs;
    for (const auto& type : sum.inputs) {
      if (type) buffers.push_back(random_buffer(*type, random, -1, 1, 2));
      inputs.push_back(type ? buffers.back().get() : nullptr);
    }
    auto expected = run_kernel(*reference, exact, inputs);
    for (const Backend* backend : {reference.get(), cpu.get()}) {
      auto found = run_kernel(*backend, request, inputs);
      expect_close(exact.outputs[0], expected[0], found[0], 5e-3, to_string(request) + " on " + backend->name());
      EXPECT_NE(std::memcmp(expected[0].get(), found[0].get(), exact.outputs[0].bytes()), 0) << to_string(request);
    }
    // The reference takes one product of a batch at a time in any case.
    EXPECT_LT(cpu->create_kernel(request)->workspace_bytes(), cpu->create_kernel(exact)->workspace_bytes())
        << to_string(request);
  }
}

TEST(HalfPartials, LeaveShortSumsOtherTypesAndGroupsAlone) {
  std::unique_ptr<Backend> cpu = make_cpu_backend();
  ConvAttrs grouped{{1}, {1}, {1}, 2};
  for (const Sum& sum :
       {Sum{"dot", Attrs::of(DotAttrs{}), {f16({3, 256}), f16({256, 4})}},
        Sum{"dot", Attrs::of(DotAttrs{}), {f32({3, 1000}), f32({1000, 4})}},
        Sum{"conv_input_grad", Attrs::of(ConvGradAttrs{grouped, {2, 4, 5}}), {f16({2, 200, 5}), f16({200, 2, 3})}}}) {
    KernelRequest exact = request_of(sum.op, sum.attrs, sum.inputs), request = exact;
    request.half_partials = true;
    std::mt19937 random(1);
    std::vector<Buffer> buffers;
    std::vector<const void*> inputs;
    for (const auto& type : sum.inputs) buffers.push_back(random_buffer(*type, random, -1, 1, 2));
    for (const Buffer& buffer : buffers) inputs.push_back(buffer.get());
    auto expected = run_kernel(*cpu, exact, inputs), found = run_kernel(*cpu, request, inputs);
    EXPECT_EQ(std::memcmp(expected[0].get(), found[0].get(), exact.outputs[0].bytes()), 0) << to_string(request);
  }
}

}  // namespace
}  // namespace aspen::testing
