#include "poptorch/api/item_reader.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "poptorch/error.h"

namespace poptorch {
namespace {

// An exception on its way from a data set to the consumer.
struct ElementFailure {
  std::int64_t index;
  std::exception_ptr cause;
};

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

// The error that the consumer sees: who failed at what, and inside it what was thrown.
std::exception_ptr described(std::exception_ptr cause, std::optional<std::int64_t> worker, std::string what) {
  try {
    std::rethrow_exception(cause);
  } catch (const ElementFailure& failure) {
    cause = failure.cause;
    what = fmt::format("element {}", failure.index);
  } catch (...) {
  }
  const std::string who = worker ? fmt::format("worker {}, ", *worker) : "";
  const std::string message = fmt::format("[DataLoader] {}{}: {}", who, what, text_of(cause));
  try {
    try {
      std::rethrow_exception(cause);
    } catch (...) {
      std::throw_with_nested(Error(message));
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

void detail::rethrow_of_element(std::int64_t index) { throw ElementFailure{index, std::current_exception()}; }

ItemReader::ItemReader(ReadingPlan plan) : plan_(std::move(plan)), buffers_(plan_.rows_per_item) {}

ItemReader::~ItemReader() { stop(); }

void ItemReader::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    for (const auto& item : items_) item->is_dropped = true;
  }
  work_.notify_all();
  ready_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ItemReader::start_threads() {
  for (std::int64_t i = static_cast<std::int64_t>(threads_.size()); i < plan_.num_threads; ++i) {
    threads_.emplace_back([this, i] { work(i); });
  }
}

void ItemReader::preload() {
  const std::lock_guard lock(mutex_);
  begin_epoch();
  start_threads();
}

std::int64_t ItemReader::start_epoch() {
  std::unique_lock lock(mutex_);
  ++wanted_epoch_;
  while (!items_.empty() && items_.front()->epoch < wanted_epoch_) {
    items_.front()->is_dropped = true;
    items_.pop_front();
  }
  if (open_ != nullptr && open_->is_dropped) open_ = nullptr;
  if (epoch_ < wanted_epoch_) {
    is_exhausted_ = true;
    ready_.wait(lock, [&] { return !reads_stream_ || is_stopped_; });
    if (epoch_ < wanted_epoch_) begin_epoch();
  }
  if (!is_stopped_) start_threads();
  work_.notify_all();
  return wanted_epoch_;
}

void ItemReader::begin_epoch() {
  ++epoch_;
  position_ = num_opened_ = 0;
  has_failed_ = false;
  if (is_stream()) {
    is_exhausted_ = false;
    return;
  }
  order_ = std::make_shared<Order>(plan_.sampler->next_epoch());
  limit_ = plan_.drop_last ? order_->size / plan_.rows_per_item * plan_.rows_per_item : order_->size;
  is_exhausted_ = limit_ == 0;
}

// Whether there is a new item to make.
bool ItemReader::open_item() {
  if (static_cast<std::int64_t>(items_.size()) >= plan_.depth || reads_stream_) return false;
  if (is_exhausted_) {
    // An epoch that had no items will not have any the next time; one that failed is the consumer's business.
    if (!plan_.goes_on || num_opened_ == 0 || has_failed_ || epoch_ < wanted_epoch_) return false;
    begin_epoch();
    if (is_exhausted_) return false;
  }
  auto item = std::make_shared<Item>();
  item->epoch = epoch_;
  item->number = num_opened_++;
  item->order = order_;
  item->begin = position_;
  item->rows = is_stream() ? plan_.rows_per_item : std::min(plan_.rows_per_item, limit_ - position_);
  item->num_pending = (item->rows + plan_.rows_per_piece - 1) / plan_.rows_per_piece;
  position_ += item->rows;
  if (!is_stream()) is_exhausted_ = position_ >= limit_;
  items_.push_back(item);
  open_ = std::move(item);
  return true;
}

std::optional<ItemReader::Piece> ItemReader::claim() {
  if (is_stopped_) return std::nullopt;
  // The first element decides about all others, so it comes alone.
  if (plan_.checks_items && !has_layout_ && num_in_flight_ > 0) return std::nullopt;
  if (open_ == nullptr && !open_item()) return std::nullopt;
  Piece piece{open_, open_->claimed, std::min(plan_.rows_per_piece, open_->rows - open_->claimed), false};
  open_->claimed += piece.count;
  if (open_->claimed == open_->rows) open_ = nullptr;
  ++num_in_flight_;
  if (is_stream()) {
    reads_stream_ = true;
    piece.resets = piece.item->number == 0;
  }
  return piece;
}

void ItemReader::finish(const Piece& piece, std::exception_ptr error) {
  Item& item = *piece.item;
  --num_in_flight_;
  --item.num_pending;
  has_layout_ = buffers_.has_layout();
  if (error != nullptr && (item.error == nullptr || piece.row < item.error_row)) {
    item.error = std::move(error);
    item.error_row = piece.row;
  }
  if (item.error != nullptr && item.epoch == epoch_) is_exhausted_ = has_failed_ = true;
}

bool ItemReader::is_over() const {
  const bool has_item = !items_.empty() && items_.front()->epoch == wanted_epoch_;
  return !has_item && (epoch_ > wanted_epoch_ || is_exhausted_);
}

bool ItemReader::next(Tensors& result) {
  if (!result.empty()) buffers_.give_back(std::move(result));
  result.clear();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (is_stopped_) throw Error("[DataLoader] the loader was terminated and gives no items any more.");
    if (is_over()) return false;
    if (!items_.empty() && items_.front()->epoch == wanted_epoch_ && items_.front()->num_pending == 0) break;
    if (!threads_.empty()) {
      ready_.wait(lock);
    } else if (std::optional<Piece> piece = claim()) {
      lock.unlock();
      std::exception_ptr error = make(*piece, std::nullopt);
      lock.lock();
      finish(*piece, std::move(error));
    }
  }
  const std::shared_ptr<Item> item = std::move(items_.front());
  items_.pop_front();
  work_.notify_all();
  if (item->error != nullptr) std::rethrow_exception(item->error);
  result = std::move(item->tensors);
  return true;
}

void ItemReader::work(std::int64_t worker) {
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    std::optional<Piece> piece = claim();
    if (!piece) {
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    std::exception_ptr error = make(*piece, worker);
    lock.lock();
    finish(*piece, std::move(error));
    ready_.notify_all();
    work_.notify_all();
  }
}

std::exception_ptr ItemReader::make(Piece& piece, std::optional<std::int64_t> worker) {
  std::int64_t index = 0;
  try {
    if (is_stream()) {
      make_of_stream(piece, index);
    } else if (plan_.source.get) {
      make_of_elements(piece, index);
    } else {
      make_of_batch(piece, index);
    }
    return nullptr;
  } catch (...) {
    const bool is_batch = plan_.source.get_batch || plan_.source.next_batch;
    return described(std::current_exception(), worker,
                     fmt::format("{} {}", is_batch ? "the batch from element" : "element", index));
  }
}

void ItemReader::make_of_elements(const Piece& piece, std::int64_t& index) {
  Item& item = *piece.item;
  for (std::int64_t row = piece.row; row < piece.row + piece.count && !item.is_dropped; ++row) {
    index = (*item.order)[item.begin + row];
    const Tensors element = plan_.source.get(index);
    if (!buffers_.has_layout()) buffers_.set_layout(element);
    buffers_.provide(item.tensors, item.rows);
    buffers_.write_row(item.tensors, row, element);
  }
}

void ItemReader::make_of_batch(const Piece& piece, std::int64_t& index) {
  const Item& item = *piece.item;
  std::vector<std::int64_t> indices;
  for (std::int64_t row = piece.row; row < piece.row + piece.count; ++row) {
    indices.push_back((*item.order)[item.begin + row]);
  }
  index = indices.front();
  accept_batch(piece, plan_.source.get_batch(indices));
}

void ItemReader::accept_batch(const Piece& piece, Tensors batch) {
  Item& item = *piece.item;
  if (!plan_.checks_items) {
    item.tensors = std::move(batch);
    return;
  }
  if (!buffers_.has_layout()) buffers_.set_layout_of_rows(batch);
  if (piece.count == item.rows) {
    item.tensors = buffers_.conforming(std::move(batch));
    return;
  }
  if (!batch.empty() && batch[0].size(0) != piece.count) {
    throw Error(
        fmt::format("the collate function made {} rows of {} elements, which cannot be put together to an item "
                    "of {}; expected one row per element.",
                    batch[0].size(0), piece.count, item.rows));
  }
  buffers_.provide(item.tensors, item.rows);
  buffers_.write_rows(item.tensors, piece.row, batch);
}

void ItemReader::make_of_stream(Piece& piece, std::int64_t& index) {
  Item& item = *piece.item;
  std::vector<Tensors> elements;
  Tensors batch;
  std::int64_t count = 0;
  // The stream is free for others when this is done, which is before its elements are put together.
  const auto leave_stream = [&](bool ended) {
    const std::lock_guard lock(mutex_);
    reads_stream_ = false;
    if (ended && item.epoch == epoch_) is_exhausted_ = true;
    const bool is_item = count == plan_.rows_per_item || (count > 0 && !plan_.drop_last);
    if (!is_item && !item.is_dropped && items_.back() == piece.item) items_.pop_back();
    if (item.number == 0 && !is_item) num_opened_ = 0;
    item.rows = piece.count = count;
    work_.notify_all();
    ready_.notify_all();
    return is_item;
  };
  bool is_item = false;
  index = item.begin;
  try {
    if (piece.resets && plan_.source.reset) plan_.source.reset();
    if (plan_.source.next_batch) {
      std::tie(batch, count) = plan_.source.next_batch(plan_.rows_per_item);
    } else {
      for (; count < plan_.rows_per_item && !item.is_dropped; ++count) {
        index = item.begin + count;
        std::optional<Tensors> element = plan_.source.next();
        if (!element) break;
        elements.push_back(std::move(*element));
      }
    }
    is_item = leave_stream(count < plan_.rows_per_item);
  } catch (...) {
    count = plan_.rows_per_item;  // the item stays, to bring the error
    leave_stream(true);
    throw;
  }
  if (!is_item) return;
  if (plan_.source.next_batch) {
    accept_batch(piece, std::move(batch));
    return;
  }
  for (std::int64_t row = 0; row < count && !item.is_dropped; ++row) {
    index = item.begin + row;
    const Tensors& element = elements[static_cast<std::size_t>(row)];
    if (!buffers_.has_layout()) buffers_.set_layout(element);
    buffers_.provide(item.tensors, count);
    buffers_.write_row(item.tensors, row, element);
  }
}

}  // namespace poptorch
