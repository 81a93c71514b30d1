#include "poptorch/data_loader.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "poptorch/api/batching.h"
#include "poptorch/api/item_reader.h"
#include "poptorch/api/sampling.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"
#include "poptorch/profiling.h"

namespace poptorch {
namespace {

void check_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) throw ValueError(fmt::format("[DataLoader] {} is {}; expected at least {}.", name, value, least));
}

std::int64_t size_of_data_set(const DataSource& source) {
  if (source.size) return *source.size;
  throw Error("[DataLoader] the data set has get, but no size; expected one that tells how many elements it has.");
}

std::unique_ptr<Sampler> make_sampler(const Options& options, const DataLoaderOptions& settings,
                                      const DataSource& source, std::int64_t combined) {
  const std::int64_t num_processes = options.Distributed.numProcesses();
  const bool is_partitioned = settings.auto_distributed_partitioning && num_processes > 1;
  if (source.next || source.next_batch) {
    if (is_partitioned) {
      throw ArgumentError(
          "[DataLoader] an iterable data set cannot be partitioned automatically among processes; set "
          "auto_distributed_partitioning to false and let the data set give the share of this process.");
    }
    if (settings.shuffle) {
      throw ValueError("[DataLoader] an iterable data set has an order of its own; expected shuffle to be false.");
    }
    return nullptr;
  }
  const std::int64_t size = size_of_data_set(source);
  if (is_partitioned) {
    const auto seed = settings.shuffle ? std::optional(shared_seed(options.randomSeed())) : std::nullopt;
    return std::make_unique<ShareSampler>(size, combined, num_processes, options.Distributed.processId(),
                                          settings.drop_last, seed);
  }
  at::Generator generator;
  if (settings.mode != DataLoaderMode::Sync) {
    // Epochs are drawn when threads come to them: from a generator of their own, or the program's would depend on that.
    const at::Tensor seed = at::empty({}, at::kLong).random_();
    generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed.item<std::int64_t>()));
  }
  return std::make_unique<WholeSampler>(size, settings.shuffle, settings.num_workers > 0, generator);
}

ReadingPlan make_plan(const Options& options, DataSource source, const DataLoaderOptions& settings) {
  check_at_least("num_workers", settings.num_workers, 0);
  if (settings.buffer_size) check_at_least("buffer_size", *settings.buffer_size, 1);
  ReadingPlan plan;
  plan.rows_per_item = combined_batch_size(settings.batch_size, micro_batches(options.store(), true).count);
  plan.sampler = make_sampler(options, settings, source, plan.rows_per_item);
  plan.drop_last = settings.drop_last;

  const DataLoaderMode mode = resolved_mode(settings.mode, settings.drop_last, plan.rows_per_item);
  const bool is_async = mode != DataLoaderMode::Sync;
  const bool is_collated = source.get_batch || source.next_batch;
  plan.rows_per_piece = plan.rows_per_item;
  if (mode == DataLoaderMode::AsyncRebatched) {
    const std::int64_t size = worker_batch_size(plan.rows_per_item, settings.rebatched_worker_size);
    if (plan.sampler != nullptr) plan.rows_per_piece = size;
  } else if (source.get) {
    plan.rows_per_piece = piece_size(plan.rows_per_item, settings.num_workers);
  }
  plan.checks_items = is_async || !is_collated;
  plan.goes_on = is_async && settings.load_indefinitely;
  plan.num_threads = is_async ? std::max<std::int64_t>(settings.num_workers, 1) : settings.num_workers;
  if (plan.num_threads > 0) {
    // Each worker has a piece to make while others are ready.
    const std::int64_t pieces_per_item = (plan.rows_per_item + plan.rows_per_piece - 1) / plan.rows_per_piece;
    const std::int64_t in_the_making = (plan.num_threads + pieces_per_item - 1) / pieces_per_item;
    plan.depth = settings.buffer_size.value_or(in_the_making + 2);
  }
  plan.source = std::move(source);
  return plan;
}

}  // namespace

struct DataLoader::State {
  State(ReadingPlan plan, const DataLoaderOptions& settings)
      : is_async(settings.mode != DataLoaderMode::Sync), drop_last(plan.drop_last), rows_per_item(plan.rows_per_item),
        num_elements(plan.sampler != nullptr ? plan.sampler->size() : plan.source.size), reader(std::move(plan)) {
    if (num_elements) warn_about_remainder("elements", *num_elements, rows_per_item, drop_last);
    if (is_async && settings.early_preload) reader.preload();
  }

  bool is_async, drop_last;
  std::int64_t rows_per_item;
  std::optional<std::int64_t> num_elements;  // of an epoch
  std::int64_t epoch = -1;                   // of the latest loop
  ItemReader reader;
};

DataLoader::DataLoader(const Options& options, DataSource source, const DataLoaderOptions& settings)
    : state_(std::make_unique<State>(make_plan(options, std::move(source), settings), settings)) {}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

DataLoader::Iterator DataLoader::begin() {
  Iterator iterator;
  iterator.state_ = state_.get();
  iterator.epoch_ = state_->epoch = state_->reader.start_epoch();
  return ++iterator;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (state_ == nullptr) throw Error("[DataLoader] there is no item after the end of an epoch.");
  if (epoch_ != state_->epoch) throw Error("[DataLoader] a later loop over the loader has ended this one.");
  const profiling::Tracepoint point(profiling::kLoaderChannel, profiling::kNextItem);
  State* state = std::exchange(state_, nullptr);  // an error ends the epoch, too
  if (state->reader.next(item_)) state_ = state;
  return *this;
}

std::int64_t DataLoader::combinedBatchSize() const { return state_->rows_per_item; }

std::int64_t DataLoader::size() const {
  if (state_->num_elements) return num_items(*state_->num_elements, state_->rows_per_item, state_->drop_last);
  throw Error("[DataLoader] the data set does not tell its size, so the number of items is not known.");
}

void DataLoader::terminate() {
  if (state_->is_async) state_->reader.stop();
}

at::Tensor detail::number(bool value) { return at::scalar_tensor(value, at::kBool); }
at::Tensor detail::number(std::int64_t value) { return at::scalar_tensor(value, at::kLong); }
at::Tensor detail::number(float value) { return at::scalar_tensor(value, at::kFloat); }
at::Tensor detail::number(double value) { return at::scalar_tensor(value, at::kDouble); }

}  // namespace poptorch
