// Batches of known data sets: bytes of images through tables, rows of tensors, and what has changed since.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "error_of.h"
#include "poptorch/api/image_batches.h"
#include "poptorch/api/known_rows.h"

namespace {

using poptorch::ImageBatches;
using poptorch::ImageChain;
using poptorch::tests::error_of;

constexpr std::int64_t kImages = 5, kHeight = 3, kWidth = 4, kChannels = 2;

torch::Tensor images() { return torch::randint(0, 256, {kImages, kHeight, kWidth, kChannels}, torch::kByte); }

// Divides each byte by 255 and adds the number of its channel; pixels stay where they are.
ImageChain scaling() {
  const auto bytes = torch::arange(256).div(255.0F).to(torch::kFloat);
  const auto places = torch::arange(kHeight * kWidth).reshape({1, kHeight, kWidth}).repeat({kChannels, 1, 1});
  return {torch::stack({bytes, bytes + 1}), places, torch::zeros({kChannels, kHeight, kWidth})};
}

torch::Tensor scaled(const torch::Tensor& images) {
  const auto values = images.permute({0, 3, 1, 2}).to(torch::kFloat).div(255.0F);
  return values + torch::tensor({0.0F, 1.0F}).reshape({1, 2, 1, 1});
}

TEST(ImageBatches, TranslatesTheBytesOfEachChannel) {
  const auto data = images();
  const ImageBatches batches(data, scaling());
  const auto expected = scaled(data).index_select(0, torch::tensor({4, 0, 4}));
  EXPECT_TRUE(torch::equal(*batches.make({4, 0, 4}), expected));
}

TEST(ImageBatches, ReadsImagesOfAnyStrides) {
  const auto planes = images().permute({0, 3, 1, 2}).contiguous().permute({0, 2, 3, 1});
  EXPECT_TRUE(torch::equal(*ImageBatches(planes, scaling()).make({1, 2}), scaled(planes).slice(0, 1, 3)));
  const auto turned = images().transpose(1, 2).contiguous().transpose(1, 2);
  EXPECT_TRUE(torch::equal(*ImageBatches(turned, scaling()).make({1, 2}), scaled(turned).slice(0, 1, 3)));
}

TEST(ImageBatches, MovesPixelsAndPutsInConstants) {
  const auto data = images();
  ImageChain chain = scaling();
  chain.places = torch::tensor({11, -1}).reshape({1, 1, 2}).repeat({kChannels, 1, 1});
  chain.constants = torch::full({kChannels, 1, 2}, 7.0F);
  const auto made = *ImageBatches(data, chain).make({3});
  EXPECT_TRUE(torch::equal(made.select(3, 0), scaled(data).select(0, 3).select(1, 2).select(1, 3).reshape({1, 2, 1})));
  EXPECT_TRUE(torch::equal(made.select(3, 1), torch::full({1, kChannels, 1}, 7.0F)));
}

TEST(ImageBatches, SeesTheDataAsItIs) {
  const auto data = images();
  const ImageBatches batches(data, scaling());
  data.fill_(51);
  EXPECT_TRUE(torch::equal(*batches.make({2}), scaled(data).slice(0, 2, 3)));
}

TEST(ImageBatches, WritesToRowsOfTheCaller) {
  const auto data = images(), ring = torch::zeros({6, kChannels, kHeight, kWidth});
  const ImageBatches batches(data, scaling());
  const auto made = *batches.make({0, 1}, ring.slice(0, 2, 4));
  EXPECT_EQ(made.data_ptr(), ring[2].data_ptr());
  EXPECT_TRUE(torch::equal(ring.slice(0, 2, 4), scaled(data).slice(0, 0, 2)));
  EXPECT_NE(error_of([&] { batches.make({0}, ring); }).find("rows like the results"), std::string::npos);
}

TEST(ImageBatches, HasNothingForImagesThatAreNotThere) {
  const ImageBatches batches(images(), scaling());
  EXPECT_FALSE(batches.make({0, kImages}).has_value());
  EXPECT_FALSE(batches.make({-1}).has_value());
}

TEST(ImageBatches, RejectsPlacesOutsideTheImages) {
  ImageChain chain = scaling();
  chain.places = chain.places + 1;
  EXPECT_NE(error_of([&] { ImageBatches(images(), chain); }).find("places inside the images"), std::string::npos);
}

TEST(KnownRows, AreThoseOfTheTensor) {
  for (const auto& tensor : {torch::randn({6, 3}), torch::randn({3, 6}).t(), torch::arange(6), torch::randn({12, 2})}) {
    const auto expected = tensor.index_select(0, torch::tensor({5, 0, 5}));
    EXPECT_TRUE(torch::equal(*poptorch::picked_rows(tensor, {5, 0, 5}), expected));
  }
  EXPECT_FALSE(poptorch::picked_rows(torch::arange(6), {6}).has_value());
  EXPECT_FALSE(poptorch::picked_rows(torch::arange(6), {-1}).has_value());
}

TEST(KnownRows, ChangedImagesAreFound) {
  const auto data = images(), before = data.clone(), known = torch::ones({kImages}, torch::kBool);
  known[4] = false;
  data[1][2][3][1].sub_(1);
  const std::vector<std::int64_t> expected = {1, 4};
  EXPECT_EQ(*poptorch::changed_images(data, before, known, {0, 1, 3, 4}), expected);
  EXPECT_EQ(*poptorch::changed_images(data.permute({0, 2, 1, 3}), before.permute({0, 2, 1, 3}).contiguous(), known,
                                      {0, 1, 3, 4}),
            expected);
  EXPECT_FALSE(poptorch::changed_images(data, before, known, {kImages}).has_value());
}

}  // namespace
