// Views and writes: whatever shares memory in torch shares its value in a captured model.
#include "poptorch/capture/traced_impl.h"
#include "tests/capture/capture.h"

namespace poptorch {
namespace {

using torch::indexing::Slice;

torch::Tensor numbers(torch::IntArrayRef shape) {
  torch::manual_seed(7);
  return torch::randn(shape);
}

TEST(Alias, WriteThroughReshapeReachesTheWhole) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        x.view({-1}).index_put_({Slice(2, 5)}, 7.0);
        return {x};
      },
      {numbers({4, 3})});
}

TEST(Alias, WriteToTheWholeReachesOldViews) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        auto row = x[1];
        auto turned = x.t();
        x.mul_(2);
        return {row, turned, x};
      },
      {numbers({4, 3})});
}

TEST(Alias, WriteThroughSteppedSliceOfTranspose) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        x.transpose(0, 1).slice(1, 0, 4, 2).add_(10);
        return {x};
      },
      {numbers({4, 3})});
}

TEST(Alias, WriteThroughDiagonal) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        x.diagonal().fill_(5);
        return {x, x.diagonal()};
      },
      {numbers({4, 4})});
}

TEST(Alias, ViewOfAViewSeesWritesMadeBetween) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        auto half = x.narrow(0, 1, 2);
        auto cell = half[0].narrow(0, 0, 2);
        x[1].zero_();
        cell.add_(1);
        half.mul_(3);
        return {x, half, cell};
      },
      {numbers({4, 3})});
}

TEST(Alias, CloneIsItsOwn) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        auto copy = x.clone();
        x.add_(1);
        return {x, copy};
      },
      {numbers({2, 3})});
}

TEST(Alias, InPlaceChangesOfShape) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto x = in[0].clone();
        auto same = x.view({2, 3});
        x.unsqueeze_(0);
        x.squeeze_(0);
        x.t_();
        x.mul_(2);
        return {x, same};
      },
      {numbers({2, 3})});
}

TEST(Alias, WriteThroughExpandIsRefused) {
  const auto write = [](const Tensors& in) -> Tensors {
    auto wide = (in[0] + 1).expand({4, 3});
    wide.add_(1);
    return {wide};
  };
  try {
    capture_and_run(write, {numbers({1, 3})});
    FAIL() << "no error";
  } catch (const aspen::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("clone()"), std::string::npos) << error.what();
  }
}

TEST(Alias, WrittenInputsComeBack) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        in[0].add_(1);
        in[0][0].fill_(3);
        return {in[0] * 2};
      },
      {numbers({2, 3})});
}

TEST(Alias, OutFormsWriteTheirTarget) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto target = torch::zeros_like(in[0]);
        auto empty = torch::empty({0});
        torch::add_out(target, in[0], in[0]);
        torch::mul_out(empty, in[0], in[0]);
        return {target, empty};
      },
      {numbers({2, 3})});
}

TEST(Alias, HostTensorWrittenWithCapturedData) {
  expect_like_torch(
      [](const Tensors& in) -> Tensors {
        auto table = torch::zeros({4, 3});
        auto row = table[2];
        table[1] = in[0][0];
        table += 1;
        row.mul_(in[0][1]);
        return {table, row};
      },
      {numbers({2, 3})});
}

TEST(Alias, BuffersKeepWhatForwardWrites) {
  auto sum = torch::zeros({3});
  auto count = torch::zeros({}, torch::kLong);
  const auto run = [&](const Tensors& in) -> Tensors {
    sum.add_(in[0].sum(0));
    sum.narrow(0, 0, 1).zero_();
    count.add_(1);
    return {sum * 2};
  };
  const auto x = numbers({2, 3});
  const Captured captured = capture_and_run(run, {x}, {{"sum", sum}, {"count", count}});
  auto wanted = x.sum(0);
  wanted[0] = 0;
  expect_close(sum, wanted, "sum");
  EXPECT_EQ(count.item<std::int64_t>(), 1);
  EXPECT_EQ(count.scalar_type(), torch::kLong);
  expect_close(captured.outputs[0], wanted * 2, "output");
}

TEST(Alias, ViewMadeBeforeCaptureSharesTheBuffer) {
  auto table = numbers({3, 4});
  const auto wanted = table.clone();
  auto column = table.select(1, 2);         // strided
  auto turned = table.narrow(0, 1, 2).t();  // dense in another order
  const auto run = [&](const Tensors& in) -> Tensors {
    column.add_(in[0]);
    turned.mul_(2);
    return {column * 1, turned * 1};
  };
  const Captured captured = capture_and_run(run, {torch::ones({3})}, {{"table", table}});
  wanted.select(1, 2).add_(1);
  wanted.narrow(0, 1, 2).mul_(2);
  expect_close(table, wanted, "table");
  expect_close(captured.outputs[0], wanted.select(1, 2), "column");
  expect_close(captured.outputs[1], wanted.narrow(0, 1, 2).t(), "turned");
}

TEST(Alias, TiedTensorsAreOneVariable) {
  auto table = numbers({3, 3});
  auto tied = table;  // the same tensor under another name
  const auto run = [&](const Tensors& in) -> Tensors {
    tied.add_(in[0]);
    return {table * 1};
  };
  const auto wanted = table + 1;
  const Captured captured = capture_and_run(run, {torch::ones({3, 3})}, {{"a", table}, {"b", tied}});
  expect_close(captured.outputs[0], wanted, "output");
  expect_close(table, wanted, "table");
  EXPECT_EQ(captured.text.find("variable %b"), std::string::npos) << captured.text;
}

// What a capture knows goes with the model, however it was written to.
TEST(Alias, WritesDoNotKeepTheirCapture) {
  std::weak_ptr<Capture> seen;
  auto table = numbers({3, 3});
  const auto run = [&](const Tensors& in) -> Tensors {
    seen = traced_impl(in[0])->capture();
    auto x = in[0].clone();
    x[1].add_(1);
    table.add_(x);
    return {x + table};
  };
  capture_and_run(run, {numbers({3, 3})}, {{"table", table}});
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace poptorch
