// poptorch::DataLoader: which elements make which item, whatever the number of workers; what becomes of errors.
#include <gtest/gtest.h>
#include <poptorch/poptorch.h>
#include <torch/data.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "error_of.h"

namespace {

struct Pair {  // in an element
  float first, second;
};

}  // namespace

template <>
struct poptorch::Structure<Pair> {
  static auto members(Pair& pair) { return std::tie(pair.first, pair.second); }
};

namespace {

using poptorch::DataLoader;
using poptorch::DataLoaderMode;
using poptorch::DataLoaderOptions;
using Numbers = std::vector<std::int64_t>;

// Element i is (two times i, i).
struct Rows {
  std::int64_t length;
  std::pair<torch::Tensor, std::int64_t> get(std::size_t index) const {
    return {torch::full({2}, static_cast<float>(index)), static_cast<std::int64_t>(index)};
  }
  std::size_t size() const { return static_cast<std::size_t>(length); }
};

struct Stream {
  std::int64_t length, position = 0;
  std::optional<torch::Tensor> next() {
    if (position == length) return std::nullopt;
    return torch::tensor(position++);
  }
  void reset() { position = 0; }
};

Numbers numbers(const torch::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

Numbers range(std::int64_t begin, std::int64_t end) {
  Numbers result(static_cast<std::size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

// The labels of an epoch, item by item. Data and label of an element must have stayed together.
std::vector<Numbers> labels_by_item(DataLoader& loader) {
  std::vector<Numbers> items;
  for (const auto& item : loader) {
    items.push_back(numbers(item.back()));
    if (item.size() == 2) {
      EXPECT_TRUE(torch::equal(item[0], item[1].to(torch::kFloat).unsqueeze(1).expand({-1, 2})));
    }
  }
  return items;
}

Numbers labels_of(DataLoader& loader) {
  Numbers all;
  for (const Numbers& item : labels_by_item(loader)) all.insert(all.end(), item.begin(), item.end());
  return all;
}

using poptorch::tests::error_of;

constexpr DataLoaderMode kModes[] = {DataLoaderMode::Sync, DataLoaderMode::Async, DataLoaderMode::AsyncRebatched};

TEST(DataLoader, ItemsHaveTheCombinedBatchSize) {
  auto options = poptorch::Options().deviceIterations(3).replicationFactor(2);
  options.Training.gradientAccumulation(5);
  DataLoader loader(options, Rows{130}, {.batch_size = 2});
  EXPECT_EQ(loader.combinedBatchSize(), 60);
  EXPECT_EQ(loader.size(), 2);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(labels_by_item(loader), (std::vector<Numbers>{range(0, 60), range(60, 120)}));
  }
}

TEST(DataLoader, GivesTheSameItemsWhateverTheWorkersAndTheMode) {
  for (const DataLoaderMode mode : kModes) {
    for (const std::int64_t workers : {0, 1, 2, 3, 7, 16}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, mode " + std::to_string(static_cast<int>(mode)));
      DataLoader loader(poptorch::Options().deviceIterations(3), Rows{40},
                        {.batch_size = 4, .num_workers = workers, .mode = mode});
      EXPECT_EQ(loader.size(), 3);
      for (int epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(labels_by_item(loader), (std::vector<Numbers>{range(0, 12), range(12, 24), range(24, 36)}));
      }
    }
  }
}

TEST(DataLoader, RebatchingLosesOnlyTheRemainderOfAll) {
  for (const std::optional<std::int64_t> worker_size : {std::optional<std::int64_t>(), {1}, {3}}) {
    DataLoader loader({}, Rows{101},
                      {.batch_size = 4,
                       .num_workers = 7,
                       .mode = DataLoaderMode::AsyncRebatched,
                       .rebatched_worker_size = worker_size});
    EXPECT_EQ(loader.size(), 25);
    EXPECT_EQ(labels_by_item(loader).size(), 25U);
    EXPECT_EQ(labels_of(loader), range(0, 100));
  }
  const auto with_worker_size = [](std::int64_t size) {
    return error_of([&] {
      DataLoader({}, Rows{8}, {.batch_size = 4, .mode = DataLoaderMode::AsyncRebatched, .rebatched_worker_size = size});
    });
  };
  EXPECT_EQ(with_worker_size(5), "[DataLoader] rebatched_worker_size 5 exceeds the combined batch size 4.");
  EXPECT_EQ(with_worker_size(0), "[DataLoader] rebatched_worker_size is 0; expected at least 1.");
}

TEST(DataLoader, LastItemIsShortIfAskedFor) {
  for (const DataLoaderMode mode : kModes) {
    DataLoader loader({}, Rows{10}, {.batch_size = 4, .drop_last = false, .num_workers = 2, .mode = mode});
    EXPECT_EQ(loader.size(), 3);
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(labels_by_item(loader), (std::vector<Numbers>{range(0, 4), range(4, 8), range(8, 10)}));
    }
  }
}

TEST(DataLoader, WarnsOfElementsThatMakeNoItem) {
  testing::internal::CaptureStderr();
  DataLoader(poptorch::Options().deviceIterations(4), Rows{4}, {.batch_size = 3});
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "4 elements are fewer than the 12 that make an item; with drop_last=true there is no item at all"),
            std::string::npos);
  testing::internal::CaptureStderr();
  DataLoader({}, Rows{10}, {.batch_size = 4, .drop_last = false});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("with drop_last=false the last item has only 2"),
            std::string::npos);
}

TEST(DataLoader, EmptyDataSetHasNoItems) {
  for (const DataLoaderMode mode : kModes) {
    DataLoader loader({}, Rows{0},
                      {.batch_size = 4, .shuffle = true, .drop_last = false, .num_workers = 1, .mode = mode});
    EXPECT_EQ(loader.size(), 0);
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_TRUE(labels_of(loader).empty());
  }
}

TEST(DataLoader, ShufflesAnewInEachEpochAndAlikeForTheSameSeed) {
  for (const DataLoaderMode mode : kModes) {
    std::vector<Numbers> first;
    for (const std::int64_t workers : {1, 3}) {  // without any, torch draws a seed for them in each epoch
      torch::manual_seed(7);
      DataLoader loader({}, Rows{32}, {.batch_size = 4, .shuffle = true, .num_workers = workers, .mode = mode});
      std::vector<Numbers> epochs;
      for (int epoch = 0; epoch < 3; ++epoch) epochs.push_back(labels_of(loader));
      EXPECT_NE(epochs[0], epochs[1]);
      EXPECT_NE(epochs[1], epochs[2]);
      for (Numbers& epoch : epochs) EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 32U);
      if (first.empty()) first = epochs;
      EXPECT_EQ(epochs, first);
    }
  }
}

TEST(DataLoader, ProcessesShareTheDataSet) {
  const auto share = [](std::int64_t process, bool shuffle, bool drop_last, int epochs) {
    auto options = poptorch::Options().randomSeed(5);
    options.Distributed.configureProcessId(process, 3);
    DataLoader loader(options, Rows{32},
                      {.batch_size = 4, .shuffle = shuffle, .drop_last = drop_last, .num_workers = 2});
    Numbers labels;
    for (int epoch = 0; epoch < epochs; ++epoch) labels = labels_of(loader);
    return labels;
  };
  EXPECT_EQ(share(0, false, true, 1), range(0, 8));
  EXPECT_EQ(share(2, false, true, 2), range(16, 24));
  EXPECT_EQ(share(0, false, false, 1), range(0, 11));
  EXPECT_EQ(share(1, false, false, 1), range(11, 22));
  EXPECT_EQ(share(2, false, false, 1), range(22, 32));
  for (const int epochs : {1, 2}) {
    std::set<std::int64_t> seen;
    for (const std::int64_t process : {0, 1, 2}) {
      const Numbers labels = share(process, true, true, epochs);
      EXPECT_EQ(labels.size(), 8U);
      seen.insert(labels.begin(), labels.end());
    }
    EXPECT_EQ(seen.size(), 24U);  // no element in two processes
  }
}

TEST(DataLoader, ShuffledSharesNeedASeed) {
  poptorch::Options options;
  options.Distributed.configureProcessId(0, 2);
  EXPECT_THROW(DataLoader(options, Rows{8}, {.shuffle = true}), poptorch::ArgumentError);
  EXPECT_EQ(error_of([&] { DataLoader(options, Rows{8}, {.shuffle = true}); }),
            "[DataLoader] shuffle=true among several processes needs the same seed in each of them: call "
            "Options::randomSeed(seed).");
  EXPECT_EQ(labels_of(*std::make_unique<DataLoader>(
                options, Rows{8}, DataLoaderOptions{.batch_size = 4, .auto_distributed_partitioning = false})),
            range(0, 8));
}

TEST(DataLoader, RejectsWrongSettings) {
  EXPECT_THROW(DataLoader({}, Rows{8}, {.batch_size = 0}), poptorch::ValueError);
  EXPECT_EQ(error_of([] { DataLoader({}, Rows{8}, {.num_workers = -1}); }),
            "[DataLoader] num_workers is -1; expected at least 0.");
  EXPECT_EQ(error_of([] { DataLoader({}, Rows{8}, {.buffer_size = 0}); }),
            "[DataLoader] buffer_size is 0; expected at least 1.");
}

// -- what an element may be -------------------------------------------------------------------------------------------
struct Mixed {
  std::tuple<std::vector<torch::Tensor>, double, std::array<bool, 1>, Pair> get(std::size_t index) const {
    const auto value = static_cast<double>(index);
    return {{torch::full({1, 2}, value), torch::zeros({0})}, value, {index % 2 == 1}, {1, 2}};
  }
  std::int64_t size() const { return 4; }
};

TEST(DataLoader, ElementsAreMadeOfTensorsAndNumbers) {
  DataLoader loader({}, Mixed(), {.batch_size = 4});
  const DataLoader::Item item = *loader.begin();
  ASSERT_EQ(item.size(), 6U);
  EXPECT_EQ(item[0].sizes(), (std::vector<std::int64_t>{4, 1, 2}));
  EXPECT_EQ(item[1].sizes(), (std::vector<std::int64_t>{4, 0}));
  EXPECT_TRUE(torch::equal(item[2], torch::arange(4, torch::kDouble)));
  EXPECT_TRUE(torch::equal(item[3], torch::tensor({false, true, false, true})));
  EXPECT_TRUE(torch::equal(item[5], torch::full({4}, 2.0f)));
}

struct Examples : torch::data::datasets::Dataset<Examples> {
  torch::data::Example<> get(std::size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {torch::full({2}, value, torch::kFloat), torch::tensor(value)};
  }
  c10::optional<std::size_t> size() const override { return 10; }
};

TEST(DataLoader, TakesDataSetsOfTorch) {
  DataLoader plain({}, Examples(), {.batch_size = 3, .num_workers = 2});
  EXPECT_EQ(labels_of(plain), range(0, 9));
  auto doubled = Examples().map(torch::data::transforms::Lambda<torch::data::Example<>>(
      [](torch::data::Example<> example) { return torch::data::Example<>(example.data * 2, example.target * 2); }));
  DataLoader mapped({}, doubled, {.batch_size = 3, .num_workers = 2});
  EXPECT_EQ(labels_of(mapped), (Numbers{0, 2, 4, 6, 8, 10, 12, 14, 16}));
  DataLoader stacked({}, Examples().map(torch::data::transforms::Stack<>()), {.batch_size = 3, .num_workers = 2});
  EXPECT_EQ(labels_of(stacked), range(0, 9));
  DataLoader only_data({}, torch::data::datasets::TensorDataset(torch::arange(5)), {.batch_size = 2});
  EXPECT_EQ(labels_of(only_data), range(0, 4));
}

// Words have no tensors until they are collated.
struct Words {
  std::string get(std::size_t index) const { return std::string(index + 1, 'a'); }
  std::size_t size() const { return 8; }
};

DataLoader::Item padded(const std::vector<std::string>& words) {
  std::size_t longest = 0;
  for (const std::string& word : words) longest = std::max(longest, word.size());
  torch::Tensor letters = torch::zeros({static_cast<std::int64_t>(words.size()), static_cast<std::int64_t>(longest)});
  torch::Tensor lengths = torch::zeros({static_cast<std::int64_t>(words.size())}, torch::kLong);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i), length = static_cast<std::int64_t>(words[i].size());
    letters[row].narrow(0, 0, length).fill_(1);
    lengths[row] = length;
  }
  return {letters, letters, lengths};
}

TEST(DataLoader, CollatesWithAFunctionOfTheUser) {
  DataLoader sync({}, Words(), padded, {.batch_size = 4, .num_workers = 2});
  std::vector<std::int64_t> widths;
  for (const auto& item : sync) widths.push_back(item[0].size(1));
  EXPECT_EQ(widths, (std::vector<std::int64_t>{4, 8}));  // items of a synchronous loader may differ
  EXPECT_EQ(labels_of(sync), range(1, 9));

  DataLoader async({}, Words(), padded, {.batch_size = 4, .num_workers = 2, .mode = DataLoaderMode::Async});
  EXPECT_EQ(error_of([&] { labels_of(async); }).substr(0, 20), "[DataLoader] worker ");

  const auto lengths = [](const std::vector<std::string>& words) { return padded(words)[2]; };
  DataLoader rebatched(
      {}, Words(), lengths,
      {.batch_size = 4, .num_workers = 2, .mode = DataLoaderMode::AsyncRebatched, .rebatched_worker_size = 3});
  EXPECT_EQ(labels_by_item(rebatched), (std::vector<Numbers>{range(1, 5), range(5, 9)}));
  const auto one_row = [](const std::vector<std::string>&) { return torch::zeros({1}); };
  DataLoader wrong({}, Words(), one_row,
                   {.batch_size = 4, .mode = DataLoaderMode::AsyncRebatched, .rebatched_worker_size = 2});
  EXPECT_EQ(error_of([&] { labels_of(wrong); }),
            "[DataLoader] worker 0, the batch from element 0: the collate function made 1 rows of 2 elements, which "
            "cannot be put together to an item of 4; expected one row per element.");
}

TEST(DataLoader, ReadsIterableDataSetsInOrder) {
  for (const DataLoaderMode mode : kModes) {
    for (const std::int64_t workers : {0, 1, 5}) {
      for (const bool drop_last : {true, false}) {
        SCOPED_TRACE(workers);
        DataLoader loader({}, Stream{11},
                          {.batch_size = 2, .drop_last = drop_last, .num_workers = workers, .mode = mode});
        for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(labels_of(loader), range(0, drop_last ? 10 : 11));
        for ([[maybe_unused]] const auto& item : loader) break;
        EXPECT_EQ(labels_of(loader), range(0, drop_last ? 10 : 11));
        EXPECT_EQ(error_of([&] { loader.size(); }),
                  "[DataLoader] the data set does not tell its size, so the number of items is not known.");
      }
    }
  }
  const auto doubled = [](const std::vector<torch::Tensor>& elements) { return torch::stack(elements) * 2; };
  DataLoader collated({}, Stream{5}, doubled, {.batch_size = 2, .drop_last = false, .num_workers = 2});
  EXPECT_EQ(labels_by_item(collated), (std::vector<Numbers>{{0, 2}, {4, 6}, {8}}));
  DataLoader empty({}, Stream{0}, {.batch_size = 2, .mode = DataLoaderMode::Async});
  EXPECT_TRUE(labels_of(empty).empty());
  EXPECT_TRUE(labels_of(empty).empty());
  poptorch::Options options;
  options.Distributed.configureProcessId(0, 2);
  EXPECT_THROW(DataLoader(options, Stream{4}), poptorch::ArgumentError);
  EXPECT_THROW(DataLoader({}, Stream{4}, {.shuffle = true}), poptorch::ValueError);
}

// -- memory -----------------------------------------------------------------------------------------------------------
TEST(DataLoader, ItemsThatAreKeptStayAsTheyAre) {
  for (const DataLoaderMode mode : kModes) {
    DataLoader loader({}, Rows{400}, {.batch_size = 4, .num_workers = 2, .mode = mode});
    std::vector<torch::Tensor> kept;
    for (const auto& item : loader) kept.push_back(item[1].narrow(0, 1, 2));  // views keep the memory, too
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto begin = static_cast<std::int64_t>(4 * i + 1);
      EXPECT_EQ(numbers(kept[i]), range(begin, begin + 2));
    }
  }
}

TEST(DataLoader, MemoryIsUsedAgainWhenNobodyHoldsIt) {
  DataLoader loader({}, Rows{400},
                    {.batch_size = 4, .num_workers = 2, .mode = DataLoaderMode::Async, .buffer_size = 3});
  std::set<void*> addresses;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& item : loader) addresses.insert(item[0].data_ptr());
  }
  EXPECT_LE(addresses.size(), 5U);  // three held ready, the consumer's, one on its way back
}

// -- errors and ends --------------------------------------------------------------------------------------------------
struct Failing : Rows {
  std::int64_t failing = 6;
  std::pair<torch::Tensor, std::int64_t> get(std::size_t index) const {
    if (static_cast<std::int64_t>(index) == failing) throw std::out_of_range("this one is broken");
    return Rows::get(index);
  }
};

TEST(DataLoader, ErrorsArriveInPlaceOfTheirItemAndNameWorkerAndElement) {
  for (const DataLoaderMode mode : kModes) {
    for (const std::int64_t workers : {0, 1, 4}) {
      DataLoader loader({}, Failing{{40}}, {.batch_size = 4, .num_workers = workers, .mode = mode});
      for (int epoch = 0; epoch < 3; ++epoch) {
        Numbers seen;
        std::string text;
        try {
          for (const auto& item : loader) {
            for (const std::int64_t label : numbers(item[1])) seen.push_back(label);
          }
        } catch (const poptorch::Error& error) {
          text = error.what();
          EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
        }
        EXPECT_EQ(seen, range(0, 4));
        const bool has_threads = workers > 0 || mode != DataLoaderMode::Sync;
        EXPECT_EQ(text.substr(0, 20), has_threads ? "[DataLoader] worker " : "[DataLoader] element");
        EXPECT_NE(text.find("element 6: this one is broken"), std::string::npos) << text;
      }
    }
  }
}

struct OfOtherShape : Rows {
  std::pair<torch::Tensor, std::int64_t> get(std::size_t index) const {
    if (index == 5) return {torch::zeros({3}), 5};
    if (index == 2) return {torch::full({2}, 2, torch::kDouble), 2};  // takes the type of the first
    return Rows::get(index);
  }
};

TEST(DataLoader, ElementsMustBeLikeTheFirst) {
  DataLoader loader({}, OfOtherShape{{8}}, {.batch_size = 4});
  EXPECT_EQ(error_of([&] { labels_of(loader); }),
            "[DataLoader] element 5: tensor 0 has shape [3]; all elements must be like the first, where it has shape "
            "[2]. Make them equal in the data set, or give a collate function that does.");
  DataLoader four({}, OfOtherShape{{4}}, {.batch_size = 4});
  EXPECT_EQ((*four.begin())[0].scalar_type(), torch::kFloat);
}

TEST(DataLoader, LoopsMayBeLeftAtAnyTime) {
  for (const DataLoaderMode mode : kModes) {
    for (const std::int64_t workers : {0, 1, 6}) {
      DataLoader loader({}, Rows{64}, {.batch_size = 4, .num_workers = workers, .mode = mode});
      for (std::size_t left_after = 1; left_after < 16; ++left_after) {
        Numbers seen;
        for (const auto& item : loader) {
          for (const std::int64_t label : numbers(item[1])) seen.push_back(label);
          if (seen.size() == 4 * left_after) break;
        }
        EXPECT_EQ(seen, range(0, static_cast<std::int64_t>(4 * left_after)));
      }
      EXPECT_EQ(labels_of(loader), range(0, 64));
      for ([[maybe_unused]] const auto& item : loader) break;
    }  // goes while workers are busy
  }
}

TEST(DataLoader, LaterLoopEndsTheEarlierOne) {
  DataLoader loader({}, Rows{8}, {.batch_size = 2});
  auto first = loader.begin();
  auto second = loader.begin();
  EXPECT_EQ(numbers((*second)[1]), range(0, 2));
  EXPECT_EQ(error_of([&] { ++first; }), "[DataLoader] a later loop over the loader has ended this one.");
  EXPECT_EQ(numbers((*++second)[1]), range(2, 4));
}

TEST(DataLoader, MovesWithItsThreads) {
  DataLoader loader({}, Rows{16}, {.batch_size = 2, .num_workers = 2, .mode = DataLoaderMode::Async});
  auto iterator = loader.begin();
  DataLoader other = std::move(loader);
  EXPECT_EQ(numbers((*++iterator)[1]), range(2, 4));
  EXPECT_EQ(labels_of(other), range(0, 16));
}

TEST(DataLoader, TerminatedLoaderGivesNoItems) {
  DataLoader loader({}, Rows{8}, {.num_workers = 2, .mode = DataLoaderMode::Async});
  for ([[maybe_unused]] const auto& item : loader) break;
  loader.terminate();
  loader.terminate();
  EXPECT_EQ(error_of([&] { labels_of(loader); }),
            "[DataLoader] the loader was terminated and gives no items any more.");
  DataLoader sync({}, Rows{8}, {.num_workers = 2});
  sync.terminate();  // has nothing to end
  EXPECT_EQ(labels_of(sync), range(0, 8));
}

// Counts how far a loader has read.
struct Counting : Rows {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::pair<torch::Tensor, std::int64_t> get(std::size_t index) const {
    ++*calls;
    return Rows::get(index);
  }
};

bool becomes(const std::atomic<int>& calls, int wanted) {
  for (int i = 0; i < 2000 && calls != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // and stays
  return calls == wanted;
}

TEST(DataLoader, ReadsAheadAsFarAsTheBufferGoes) {
  const Counting dataset{{8}};
  DataLoader preloaded(
      {}, dataset,
      {.batch_size = 2, .num_workers = 2, .mode = DataLoaderMode::Async, .buffer_size = 3, .early_preload = true});
  EXPECT_TRUE(becomes(*dataset.calls, 6));
  EXPECT_EQ(labels_of(preloaded), range(0, 8));
  EXPECT_TRUE(becomes(*dataset.calls, 14));  // three items of the next epoch

  const Counting other{{8}};
  DataLoader once({}, other,
                  {.batch_size = 2, .mode = DataLoaderMode::Async, .buffer_size = 3, .load_indefinitely = false});
  EXPECT_EQ(*other.calls, 0);
  EXPECT_EQ(labels_of(once), range(0, 8));
  EXPECT_TRUE(becomes(*other.calls, 8));
  EXPECT_EQ(labels_of(once), range(0, 8));
}

// -- with a model -----------------------------------------------------------------------------------------------------
struct Sum : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x, torch::Tensor label) { return x.sum(1) + label; }
};

TEST(DataLoader, FeedsAModel) {
  const auto options = poptorch::Options().deviceIterations(3);
  auto model = poptorch::inferenceModel(std::make_shared<Sum>(), options);
  DataLoader loader(options, Rows{50}, {.batch_size = 4, .num_workers = 2, .mode = DataLoaderMode::Async});
  std::int64_t begin = 0;
  for (const auto& item : loader) {
    const torch::Tensor expected = torch::arange(begin, begin + 12, torch::kFloat) * 3;
    EXPECT_TRUE(torch::equal(model.run(item)[0], expected));
    begin += 12;
  }
  EXPECT_EQ(begin, 48);
}

}  // namespace
