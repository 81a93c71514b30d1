#include "poptorch/api/sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <algorithm>

#include "aspen/base/log.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {

std::int64_t combined_batch_size(std::int64_t batch_size, std::int64_t micro_batches_per_item) {
  if (batch_size < 1) {
    throw ValueError(fmt::format("[DataLoader] batch_size is {}; expected at least 1.", batch_size));
  }
  return batch_size * micro_batches_per_item;
}

std::int64_t num_items(std::int64_t num_elements, std::int64_t per_item, bool drop_last) {
  const bool has_short_item = !drop_last && num_elements % per_item != 0;
  return num_elements / per_item + (has_short_item ? 1 : 0);
}

void warn_about_remainder(std::string_view elements, std::int64_t num_elements, std::int64_t per_item, bool drop_last) {
  if (drop_last && num_elements < per_item) {
    aspen::log::warn(
        "DataLoader: {} {} are fewer than the {} that make an item; with drop_last={} there is no item at all",
        num_elements, elements, per_item, spelled(true));
  }
  const std::int64_t remainder = num_elements % per_item;
  if (remainder != 0 && !drop_last) {
    aspen::log::warn(
        "DataLoader: {} {} are no multiple of the {} that make an item; with drop_last={} the last item has only {}, "
        "which a model compiled for {} rejects",
        num_elements, elements, per_item, spelled(false), remainder, per_item);
  }
}

DataLoaderMode resolved_mode(DataLoaderMode mode, bool drop_last, std::int64_t combined_batch_size) {
  const bool may_end_short = !drop_last && combined_batch_size > 1;
  return mode == DataLoaderMode::Async && may_end_short ? DataLoaderMode::AsyncRebatched : mode;
}

std::int64_t worker_batch_size(std::int64_t combined_batch_size, std::optional<std::int64_t> wanted) {
  const std::int64_t size = wanted.value_or(combined_batch_size);
  if (size > combined_batch_size) {
    throw ArgumentError(fmt::format("[DataLoader] rebatched_worker_size {} exceeds the combined batch size {}.", size,
                                    combined_batch_size));
  }
  if (size < 1) {
    throw ValueError(fmt::format("[DataLoader] rebatched_worker_size is {}; expected at least 1.", size));
  }
  return size;
}

std::int64_t piece_size(std::int64_t combined_batch_size, std::int64_t num_workers) {
  if (num_workers < 2) return combined_batch_size;
  std::int64_t size = (combined_batch_size + num_workers - 1) / num_workers;
  while (combined_batch_size % size != 0) ++size;
  return size;
}

WholeSampler::WholeSampler(std::int64_t num_elements, bool shuffle, bool persistent_workers, at::Generator generator)
    : num_elements_(num_elements), shuffle_(shuffle), persistent_workers_(persistent_workers),
      generator_(std::move(generator)) {}

std::int64_t WholeSampler::draw() {
  at::Tensor number = at::empty({}, at::kLong);
  number.random_(generator_.defined() ? c10::optional<at::Generator>(generator_) : c10::nullopt);
  return number.item<std::int64_t>();
}

Order WholeSampler::next_epoch() {
  if (!has_base_seed_ || !persistent_workers_) draw();
  has_base_seed_ = true;
  Order order{0, num_elements_, {}};
  if (shuffle_) {
    const auto seed = static_cast<std::uint64_t>(draw());
    order.listed = at::randperm(num_elements_, at::detail::createCPUGenerator(seed), at::kLong);
  }
  return order;
}

ShareSampler::ShareSampler(std::int64_t num_elements, std::int64_t combined_batch_size, std::int64_t num_processes,
                           std::int64_t process_id, bool drop_last, std::optional<std::uint64_t> seed)
    : num_elements_(num_elements) {
  if (seed) generator_ = at::detail::createCPUGenerator(*seed);
  if (drop_last) {
    size_ = combined_batch_size * (num_elements / (combined_batch_size * num_processes));
    begin_ = process_id * size_;
    left_over_ = num_elements - num_processes * size_;
  } else {
    const std::int64_t share = num_elements / num_processes, more = num_elements % num_processes;
    size_ = share + (process_id < more ? 1 : 0);
    begin_ = process_id * share + std::min(process_id, more);
  }
}

Order ShareSampler::next_epoch() {
  Order order{begin_, size_, {}};
  if (!generator_.defined()) return order;
  const std::int64_t begin = begin_ + (shifts_window_ ? left_over_ : 0);
  shifts_window_ = !shifts_window_;
  order.listed = at::randperm(num_elements_, generator_, at::kLong).narrow(0, begin, size_);
  return order;
}

ShareSampler::State ShareSampler::state() const {
  return {num_elements_, begin_, size_, left_over_, generator_.defined() ? generator_.get_state() : at::Tensor(),
          shifts_window_};
}

ShareSampler::ShareSampler(const State& state)
    : num_elements_(state.num_elements), begin_(state.begin), size_(state.size), left_over_(state.left_over),
      shifts_window_(state.shifts_window) {
  if (!state.generator.defined()) return;
  generator_ = at::detail::createCPUGenerator();
  generator_.set_state(state.generator);
}

std::uint64_t shared_seed(std::optional<std::uint64_t> seed) {
  if (!seed) {
    throw ArgumentError(fmt::format(
        "[DataLoader] shuffle={} among several processes needs the same seed in each of them: call {}(seed).",
        spelled(true), spelled("Options::randomSeed")));
  }
  return *seed;
}

}  // namespace poptorch
