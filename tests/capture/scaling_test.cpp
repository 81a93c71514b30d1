// Tables of a capture find things by what they are. Each test makes one so large that a look at every entry for every
// question would take minutes.
#include <string>

#include "capture.h"

namespace poptorch {
namespace {

// A tensor that is filled anew in every round, or made anew where the one before it lay.
TEST(CaptureScaling, ConstantsOfOneAddressAreToldApartByTheirContents) {
  constexpr int kConstants = 100'000;
  Model model(/*training=*/false);
  const auto forward = [&](const Tensors& inputs) -> Tensors {
    torch::Tensor sum = inputs[0], constant = torch::empty({4});
    for (int i = 0; i < kConstants + 1000; ++i) sum = sum + constant.fill_(i % kConstants);
    return {sum};
  };
  model.capture(forward, {torch::ones({4})}, {"x"});
  const std::string text = model.graph_text();
  int count = 0;
  for (std::size_t at = text.find("= constant("); at != std::string::npos; at = text.find("= constant(", at + 1))
    ++count;
  EXPECT_EQ(count, kConstants);  // those that come again are the same
}

TEST(CaptureScaling, PiecesOfOneMemoryAreFoundByTheirPlace) {
  constexpr std::int64_t kPieces = 200'000;
  const torch::Tensor flat = torch::arange(4 * kPieces).to(torch::kFloat);
  Model model(/*training=*/false);
  Tensors pieces;
  for (std::int64_t i = 0; i < kPieces; ++i) {
    pieces.push_back(flat.slice(0, 4 * i, 4 * i + 4));
    model.add_tensor("piece" + std::to_string(i), pieces.back(), /*is_parameter=*/false);
  }
  const auto forward = [&](const Tensors& inputs) -> Tensors {
    torch::Tensor sum = inputs[0];
    for (std::int64_t i = 0; i < kPieces; i += 1000) sum = sum + pieces[i];
    return {sum};
  };
  model.capture(forward, {torch::ones({4})}, {"x"});
  model.compile({.backend = "reference"});
  EXPECT_NE(model.graph_text().find("%piece1000:"), std::string::npos);
  EXPECT_EQ(model.graph_text().find("%piece1001:"), std::string::npos);
}

}  // namespace
}  // namespace poptorch
