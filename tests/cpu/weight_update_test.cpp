// Updates made together with their gradients: close to the reference, and bit for bit what the two ops make one after
// the other, whichever kernel makes the product.
#include <array>

#include "aspen/compiler/ir/parser.h"
#include "aspen/ops/dot/dot.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/optimizer/optimizer.h"
#include "aspen/runtime/thread_team.h"
#include "tests/cpu/compare.h"
#include "tests/cpu/network_trainer.h"

namespace aspen::testing {
namespace {

const TensorType kSettings = f32({kNumSettings}), kStep = f32({});

struct Update {
  const char* name;
  Attrs attrs;
  std::size_t states;
  std::vector<float> settings;  // in the order of enum Setting
};

std::vector<Update> updates() {
  const std::vector<float> sgd{0.05f, 0.01f, 0.9f, 0.1f, 1e-8f, 1, 10}, adam{0.05f, 0.01f, 0.9f, 0.999f, 1e-8f, 1, 10};
  const std::vector<float> at_rest{0.05f, 0, 0, 0, 1e-8f, 1, 10};
  return {{"sgd", Attrs::of(SgdAttrs{}), 0, sgd},
          {"sgd", Attrs::of(SgdAttrs{true, false}), 1, sgd},
          {"sgd", Attrs::of(SgdAttrs{true, true}), 1, sgd},
          {"sgd", Attrs::of(SgdAttrs{true, false}), 1, at_rest},
          {"adam", Attrs::of(AdamAttrs{true, true}), 2, adam},
          {"adam", Attrs::of(AdamAttrs{false, false}), 2, adam}};
}

using Values = std::vector<Buffer>;

std::vector<const void*> pointers_of(const Values& values) {
  std::vector<const void*> pointers;
  for (const Buffer& value : values) pointers.push_back(value.get());
  return pointers;
}

void expect_same(const KernelRequest& request, const Values& expected, const Values& found, const std::string& how) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::memcmp(expected[i].get(), found[i].get(), request.outputs[i].bytes()), 0)
        << to_string(request) << " result " << i << " " << how;
  }
}

class Case {
 public:
  // How the gradient is made: of two operands; those of its op may be preceded by zeros.
  Case(KernelRequest gradient, const TensorType& a, const TensorType& b, std::int64_t top, const char* prefix)
      : gradient_(std::move(gradient)), a_(a), b_(b), top_(top), prefix_(prefix) {}

  void check(const Update& update) const {
    const TensorType w = gradient_.outputs[0];
    InputTypes types{w, a_, b_, kSettings, kStep};
    types.insert(types.end(), update.states, w);
    const KernelRequest fused = request_of(prefix_ + update.name, update.attrs, types);
    std::string why;
    ASSERT_TRUE(tuned_backend().takes(fused, why)) << why;
    Values values = draw(update, types);
    const auto inputs = pointers_of(values);
    const Values found = run_kernel(*cpu_, fused, inputs);
    const Values reference = run_kernel(*make_reference_backend(), fused, inputs);
    for (std::size_t i = 0; i < found.size(); ++i) expect_close(w, reference[i], found[i], 2e-5, to_string(fused));
    expect_same(fused, apart(update, inputs), found, "of two ops");
    expect_same(fused, in_place(fused, values), found, "in place, on three threads");
  }

 private:
  Values draw(const Update& update, const InputTypes& types) const {
    std::mt19937 random(5);
    Values values;
    for (std::size_t i = 0; i < types.size(); ++i) {
      values.push_back(random_buffer(*types[i], random, i == 6 ? 0 : -1, 1, top_));
    }
    std::copy(update.settings.begin(), update.settings.end(), values[3].as<float>());
    *values[4].as<float>() = 3;
    return values;
  }

  // The gradient, and then the update.
  Values apart(const Update& update, const std::vector<const void*>& inputs) const {
    const TensorType w = gradient_.outputs[0];
    Buffer zeros(w.bytes());
    std::fill_n(zeros.as<float>(), w.numel(), 0.0f);
    std::vector<const void*> operands{inputs[1], inputs[2]};
    if (gradient_.inputs.size() == 3) operands.insert(operands.begin(), zeros.get());
    const Values gradient = run_kernel(*cpu_, gradient_, operands);
    InputTypes types{w, w, kSettings, kStep};
    types.insert(types.end(), update.states, w);
    std::vector<const void*> ports{inputs[0], gradient[0].get()};
    ports.insert(ports.end(), inputs.begin() + 3, inputs.end());
    return run_kernel(*cpu_, request_of(update.name, update.attrs, types), ports);
  }

  // The weight and the states are overwritten.
  Values in_place(const KernelRequest& request, Values& values) const {
    const auto team = make_thread_team(3);
    const StepContext step{.team = team.get()};
    const auto kernel = cpu_->create_kernel(request);
    Buffer workspace(kernel->workspace_bytes());
    const auto inputs = pointers_of(values);
    std::vector<void*> outputs{values[0].get()};
    for (std::size_t i = 5; i < values.size(); ++i) outputs.push_back(values[i].get());
    kernel->run({inputs, outputs, workspace.get(), &step});
    EXPECT_TRUE(workspace.intact());
    Values results;
    results.push_back(std::move(values[0]));
    for (std::size_t i = 5; i < values.size(); ++i) results.push_back(std::move(values[i]));
    return results;
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
  KernelRequest gradient_;
  TensorType a_, b_;
  std::int64_t top_;
  std::string prefix_;
};

Case product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const TensorType a = f32({k, m}), b = f32({k, n});
  return {request_of("dot", Attrs::of(DotAttrs{.transpose_a = true}), {a, b}), a, b, 2, "dot_"};
}

Case rows(const Shape& table, const Shape& index) {
  Shape shape = index;
  shape.insert(shape.end(), table.begin() + 1, table.end());
  const KernelRequest scatter = request_of("scatter_rows", Attrs::of(ScatterAttrs{.axis = 0, .mode = "add"}),
                                           {f32(table), i32(index), f32(shape)});
  return {scatter, i32(index), f32(shape), std::max<std::int64_t>(table[0], 1), "rows_"};
}

// dot_sgd, dot_adam
TEST(WeightUpdate, OfProducts) {
  // a turned and b in panels; b as it lies with three or two columns left over; rows in parts; a small product; one
  // that is cut along its summands; whichever kernel.
  const std::array<std::int64_t, 3> shapes[] = {{600, 256, 60},  {520, 259, 130}, {520, 194, 70}, {516, 2500, 64},
                                                {130, 2114, 64}, {300, 450, 20},  {20, 40, 500},  {200, 300, 90},
                                                {1, 300, 17},    {300, 1, 17},    {7, 5, 3}};
  for (const auto& [m, n, k] : shapes) {
    for (const Update& update : updates()) product(m, n, k).check(update);
  }
}

// rows_sgd, rows_adam
TEST(WeightUpdate, OfRows) {
  for (const Update& update : updates()) {
    rows({3000, 40}, {200}).check(update);
    rows({40, 70}, {25, 20}).check(update);       // many for each row
    rows({9, 5000}, {30}).check(update);          // rows longer than a piece
    rows({700, 3, 11}, {4, 2, 3}).check(update);  // rows of several axes
    rows({5}, {7}).check(update);
    rows({300, 8}, {0}).check(update);
    rows({0, 8}, {0}).check(update);
    rows({300, 0}, {4}).check(update);
  }
}

TEST(WeightUpdate, OfRowsRejectsWrongIndices) {
  for (const std::int64_t num_rows : {300, 0}) {
    const TensorType w = f32({num_rows, 8}), index = i32({4}), g = f32({4, 8});
    const KernelRequest request = request_of("rows_sgd", Attrs::of(SgdAttrs{}), {w, index, g, kSettings, kStep});
    std::mt19937 random(5);
    Values values;
    for (const TensorType& type : {w, index, g, kSettings, kStep})
      values.push_back(random_buffer(type, random, 0, 1, 300));
    for (std::int32_t wrong : {-1, 300}) {
      values[1].as<std::int32_t>()[2] = wrong;
      for (const auto& backend : {make_cpu_backend(), make_reference_backend()}) {
        EXPECT_THROW(run_kernel(*backend, request, pointers_of(values)), UserError);
      }
    }
  }
}

// Whether an update is made together with its gradient may depend on the placement; which kernel multiplies must not.
TEST(WeightUpdate, DoesNotDecideWhichKernelMultiplies) {
  const auto cpu = make_cpu_backend();
  const TensorType w = f32({600, 256}), a = f32({60, 600}), b = f32({60, 256});
  const KernelRequest fused = request_of("dot_sgd", Attrs::of(SgdAttrs{}), {w, a, b, kSettings, kStep});
  EXPECT_EQ(cpu->decisive(fused), request_of("dot", Attrs::of(DotAttrs{.transpose_a = true}), {a, b}));
  EXPECT_GE(cpu->candidates(fused).size(), 3);
}

// A table, two layers, and a second product by the last weight, whose gradient then is a sum.
constexpr const char* kNetwork = R"(graph @main(%x: i32[6, 5]) {
  variable %table: f32[2100, 32] parameter trainable
  variable %first: f32[420, 160] parameter trainable
  variable %second: f32[200, 420] parameter trainable
  %0: f32[6, 5, 32] = take(%table, %x) {axis=0}
  %1: f32[6, 160] = reshape(%0) {shape=[6, 160]}
  %2: f32[6, 420] = dot(%1, %first) {transpose_b=true} device 1 stage 1
  %3: f32[6, 420] = tanh(%2) device 1 stage 1
  %4: f32[6, 200] = dot(%3, %second) {transpose_b=true} device 2 stage 2
  %5: f32[6, 420] = dot(%4, %second) device 3 stage 3
  %6: f32[6, 420] = tanh(%5) device 3 stage 3
  %7: f32[] = reduce_sum(%6) {axes=[0, 1]} device 3 stage 3
  %8: f32[] = loss(%7) device 3 stage 3
  return loss: %8
})";

// Without accumulation, and so not in a pipeline. Where there are several devices updates follow all gradients.
TEST(WeightUpdate, TrainsToTheSameBitsInEveryWay) {
  for (const char* kind : {"sgd", "adam"}) {
    std::ptrdiff_t num_fused = 0;  // in the program that was trained last
    const auto train = [&](const Way& way, ExecutorOptions executor, const std::vector<std::string>& skipped = {}) {
      Way once = way;
      once.configure = [&](CompileOptions& options) {
        options.gradient_accumulation = 1;
        options.optimizer.kind = kind;
        options.optimizer.groups[0].momentum = true;
        options.skip_passes = skipped;
        way.configure(options);
        if (options.execution == Execution::kPipelined) options.execution = Execution::kSharded;
      };
      NetworkTrainer trainer(parse_graph(kNetwork), once, executor);
      num_fused = trainer.count(std::string("dot_") + kind) + trainer.count(std::string("rows_") + kind);
      return trainer.train();
    };
    const Way alone{.name = "one device", .stages_per_device = 4};
    const auto expected = train(alone, {.num_threads = 1}, {"fuse_updates"});
    EXPECT_EQ(num_fused, 0);
    EXPECT_TRUE(train(alone, {.num_threads = 1}) == expected) << kind;
    EXPECT_EQ(num_fused, 2);
    EXPECT_TRUE(train(alone, {.num_threads = 2}) == expected) << kind << ", two threads";
    for (const Way& way : ways()) {
      EXPECT_TRUE(train(way, {.num_threads = 2}) == expected) << kind << ", " << way.name;
      EXPECT_EQ(num_fused, way.stages_per_device == 4 ? 2 : 0) << way.name;
    }
  }
}

}  // namespace
}  // namespace aspen::testing
