// Arguments and results of every shape: what forward takes is what the executor takes, what it returns comes back.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "error_of.h"

struct Tokens {
  torch::Tensor ids;
  std::optional<torch::Tensor> mask;
  double scale = 1;
};

template <>
struct poptorch::Structure<Tokens> {
  static auto members(Tokens& tokens) { return std::tie(tokens.ids, tokens.mask, tokens.scale); }
};

namespace {

const torch::Tensor kX = torch::arange(6, torch::kFloat).view({2, 3});

using poptorch::tests::error_of;

template <class Module>
auto wrapped() {
  return poptorch::inferenceModel(std::make_shared<Module>());
}

struct Plain : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) const { return x + 1; }
};

TEST(Structure, ForwardMayBeConst) { EXPECT_TRUE(torch::equal(wrapped<Plain>()(kX), kX + 1)); }

struct Overloaded : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x + 1; }
  std::pair<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor y) { return {x - y, x * y}; }
};

TEST(Structure, ForwardMayBeOverloaded) {
  auto one = wrapped<Overloaded>(), two = wrapped<Overloaded>();
  EXPECT_TRUE(torch::equal(one(kX), kX + 1));
  const auto [difference, product] = two(kX, kX + 2);
  EXPECT_TRUE(torch::equal(difference, torch::full({2, 3}, -2.f)));
  EXPECT_TRUE(torch::equal(product, kX * (kX + 2)));
  EXPECT_NE(error_of([&] { two(kX); }).find("other types than those the model was compiled for"), std::string::npos);
  EXPECT_TRUE(torch::equal(two.run({kX, kX + 2})[1], product));  // once compiled, for the arguments it was compiled for
}

TEST(Structure, AListOfTensorsNeedsOneForward) {
  auto model = wrapped<Overloaded>();
  EXPECT_NE(error_of([&] { model.run({kX}); }).find("not overloaded"), std::string::npos);
}

struct Nested : torch::nn::Module {
  std::map<std::string, torch::Tensor> forward(std::vector<torch::Tensor> list, std::array<torch::Tensor, 2> pair,
                                               Tokens tokens) {
    torch::Tensor sum = list[0] * tokens.scale;
    for (std::size_t i = 1; i < list.size(); ++i) sum = sum + list[i];
    if (tokens.mask) sum = sum * *tokens.mask;
    return {{"sum", sum}, {"pair", pair[0] - pair[1]}, {"ids", tokens.ids + 1}};
  }
};

TEST(Structure, ArgumentsNest) {
  auto model = wrapped<Nested>();
  const Tokens tokens{kX, kX * 10, 2};
  const auto results = model(std::vector{kX, kX}, std::array{kX, kX - 1}, tokens);
  EXPECT_TRUE(torch::equal(results.at("sum"), kX * 3 * kX * 10));
  EXPECT_TRUE(torch::equal(results.at("pair"), torch::ones({2, 3})));
  EXPECT_TRUE(torch::equal(results.at("ids"), kX + 1));
}

TEST(Structure, AllButTensorsIsFixedByTheFirstCall) {
  auto model = wrapped<Nested>();
  const std::array pair{kX, kX};
  model(std::vector{kX, kX}, pair, Tokens{kX, kX, 2});
  EXPECT_EQ(error_of([&] {
              model(std::vector{kX, kX}, pair, Tokens{kX, kX, 3});
            }),
            "[model call] argument \"2.2\" was 2 when the model was compiled and is 3 now. A model is compiled for the "
            "arguments of its first call; call destroy() or wrap the model again to use others.");
  EXPECT_NE(error_of([&] {
              model(std::vector{kX, kX}, pair, Tokens{kX, std::nullopt, 2});
            }).find("is absent now"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              model(std::vector{kX}, pair, Tokens{kX, kX, 2});
            }).find("is a vector of 1 now"),
            std::string::npos);
  model.destroy();
  EXPECT_TRUE(torch::equal(model(std::vector{kX}, pair, Tokens{kX, std::nullopt, 3}).at("sum"), kX * 3));
}

struct WithDefault : torch::nn::Module {
  std::tuple<torch::Tensor, std::int64_t> forward(torch::Tensor x, std::int64_t factor = 3, bool negated = false) {
    return {negated ? -x * factor : x * factor, factor};
  }
};

TEST(Structure, DefaultsOfForwardHold) {
  EXPECT_TRUE(torch::equal(std::get<0>(wrapped<WithDefault>()(kX)), kX * 3));
  const auto [y, factor] = wrapped<WithDefault>()(kX, std::int64_t{2}, true);
  EXPECT_TRUE(torch::equal(y, kX * -2));
  EXPECT_EQ(factor, 2);
}

TEST(Structure, FunctionsTakeArgumentsOrAList) {
  const auto sum = [](const torch::Tensor& a, const torch::Tensor& b) { return a + b; };
  const auto listed = [](const std::vector<torch::Tensor>& all) { return all[0] - all[1]; };
  auto by_arguments = poptorch::inferenceModel(std::make_shared<Plain>(), sum);
  auto by_list = poptorch::inferenceModel(std::make_shared<Plain>(), listed);
  EXPECT_TRUE(torch::equal(by_arguments(kX, kX), kX * 2));
  EXPECT_TRUE(torch::equal(by_arguments.run({kX, kX})[0], kX * 2));
  EXPECT_TRUE(torch::equal(by_list(kX, kX), kX * 0));
  EXPECT_TRUE(torch::equal(by_list.run({kX, kX})[0], kX * 0));
}

}  // namespace
