// Which elements of a data set make which item: sizes, shares of processes, the order of each epoch. The data loaders
// of both languages follow these rules, so the same seed and options give the same items.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "poptorch/data_loader.h"

namespace poptorch {

// Rows of an item.
std::int64_t combined_batch_size(std::int64_t batch_size, std::int64_t micro_batches_per_item);

// Items that so many elements (or batches) make: the remainder is dropped or makes a short last one.
std::int64_t num_items(std::int64_t num_elements, std::int64_t per_item, bool drop_last);

// Warns where elements (or batches) are lost, all of them, or the last item is one that a compiled model rejects.
void warn_about_remainder(std::string_view elements, std::int64_t num_elements, std::int64_t per_item, bool drop_last);

// The items of an asynchronous loader have one size unless they are put together again, which knows a short one.
DataLoaderMode resolved_mode(DataLoaderMode mode, bool drop_last, std::int64_t combined_batch_size);

// Elements that a worker fetches at a time for items that are put together again: as wanted, or whole items.
std::int64_t worker_batch_size(std::int64_t combined_batch_size, std::optional<std::int64_t> wanted);

// The same for items of the usual collation. If each worker made whole items, the first one would be ready when all of
// them are: workers that share the cores share each item instead, in equal pieces.
std::int64_t piece_size(std::int64_t combined_batch_size, std::int64_t num_workers);

// The indices of one epoch: consecutive ones, or those listed.
struct Order {
  std::int64_t begin = 0, size = 0;
  at::Tensor listed;  // int64, contiguous; undefined if consecutive

  std::int64_t operator[](std::int64_t position) const {
    return listed.defined() ? listed.data_ptr<std::int64_t>()[position] : begin + position;
  }
};

// The order of the elements in each epoch.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::int64_t size() const = 0;  // elements per epoch
  virtual Order next_epoch() = 0;
};

// Of a program of one process: as torch.utils.data.DataLoader draws them from its generator.
class WholeSampler : public Sampler {
 public:
  // generator: undefined for torch's default one. Torch draws a seed for the workers with each iterator, of which
  // there is one in all if workers persist.
  WholeSampler(std::int64_t num_elements, bool shuffle, bool persistent_workers, at::Generator generator = {});
  std::int64_t size() const override { return num_elements_; }
  Order next_epoch() override;

 private:
  std::int64_t draw();

  std::int64_t num_elements_;
  bool shuffle_, persistent_workers_;
  bool has_base_seed_ = false;
  at::Generator generator_;
};

// The contiguous share of one of several processes. With drop_last every process gets the same whole number of items;
// otherwise shares are nearly equal and the first processes take one element more. A shuffled share is cut from a
// permutation that is the same in every process and new in each epoch; what one epoch leaves out is moved into the
// next.
class ShareSampler : public Sampler {
 public:
  // seed: none for no shuffling.
  ShareSampler(std::int64_t num_elements, std::int64_t combined_batch_size, std::int64_t num_processes,
               std::int64_t process_id, bool drop_last, std::optional<std::uint64_t> seed);
  std::int64_t size() const override { return size_; }
  Order next_epoch() override;

  // Where the sequence of epochs stands, to go on with it in another process.
  struct State {
    std::int64_t num_elements, begin, size, left_over;
    at::Tensor generator;  // undefined without shuffling
    bool shifts_window;    // the next epoch takes in what the latest left out
  };
  explicit ShareSampler(const State& state);
  State state() const;

 private:
  std::int64_t num_elements_, begin_, size_, left_over_ = 0;
  at::Generator generator_;  // undefined without shuffling
  bool shifts_window_ = false;
};

// The seed that shuffling among several processes needs; an error if the options have none.
std::uint64_t shared_seed(std::optional<std::uint64_t> seed);

}  // namespace poptorch
