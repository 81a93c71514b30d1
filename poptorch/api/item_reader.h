// Reads the items of a data set in order, epoch after epoch: in the caller's thread, or in threads of its own that read
// ahead. The engine of DataLoader.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "poptorch/api/item_buffers.h"
#include "poptorch/api/sampling.h"
#include "poptorch/data_loader.h"

namespace poptorch {

struct ReadingPlan {
  DataSource source;
  std::unique_ptr<Sampler> sampler;  // none for an iterable data set
  std::int64_t rows_per_item = 1;
  std::int64_t rows_per_piece = 1;  // that a worker fetches at a time; an iterable data set is read in whole items
  bool drop_last = true;
  std::int64_t num_threads = 0;  // none: the caller's
  std::int64_t depth = 1;        // items in the making or ready
  bool goes_on = false;          // reads the next epoch when one is at its end
  bool checks_items = true;      // all items must be like the first; only batches of a collate function need not
};

// For one consumer; stop() may be called from other threads.
class ItemReader {
 public:
  explicit ItemReader(ReadingPlan plan);
  ~ItemReader();

  // Starts the first epoch before the consumer asks for it.
  void preload();
  // The consumer wants the next epoch; what is left of the current one is dropped. Returns its number.
  std::int64_t start_epoch();
  // The next item of the epoch, in place of the one given, whose memory is used again if nobody else holds it. False
  // at the end. What a worker throws is thrown here, in place of its item, and ends the epoch.
  bool next(Tensors& item);
  void stop();

 private:
  struct Item {
    std::int64_t epoch, number;
    std::shared_ptr<const Order> order;
    std::int64_t begin = 0, rows = 0;  // positions in the order
    std::int64_t claimed = 0;          // rows
    std::int64_t num_pending = 0;      // pieces that are not made yet
    Tensors tensors;
    std::exception_ptr error;
    std::int64_t error_row = 0;
    std::atomic<bool> is_dropped = false;
  };
  struct Piece {
    std::shared_ptr<Item> item;
    std::int64_t row, count;
    bool resets;  // the stream, before it is read
  };

  // With the lock:
  void begin_epoch();
  bool open_item();
  std::optional<Piece> claim();
  void finish(const Piece& piece, std::exception_ptr error);
  bool is_over() const;  // nothing more comes for the consumer in this epoch
  // Without it; `index` names the element that they are at:
  void work(std::int64_t worker);
  std::exception_ptr make(Piece& piece, std::optional<std::int64_t> worker);
  void make_of_elements(const Piece& piece, std::int64_t& index);
  void make_of_batch(const Piece& piece, std::int64_t& index);
  void make_of_stream(Piece& piece, std::int64_t& index);
  void accept_batch(const Piece& piece, Tensors batch);
  void start_threads();

  bool is_stream() const { return plan_.sampler == nullptr; }

  ReadingPlan plan_;
  ItemBuffers buffers_;

  std::mutex mutex_;
  std::condition_variable work_, ready_;
  std::vector<std::thread> threads_;
  bool is_stopped_ = false;
  std::int64_t wanted_epoch_ = -1;         // the consumer's
  std::int64_t epoch_ = -1;                // the one that is read
  std::shared_ptr<const Order> order_;     // its order,
  std::int64_t position_ = 0, limit_ = 0;  // how far it is read, and where it ends
  std::int64_t num_opened_ = 0;            // items of it
  bool is_exhausted_ = true;               // nothing of it is left to read
  bool has_failed_ = false;
  std::deque<std::shared_ptr<Item>> items_;  // in order: ready or in the making
  std::shared_ptr<Item> open_;               // the one of them that has rows to be claimed
  std::int64_t num_in_flight_ = 0;           // pieces
  bool reads_stream_ = false;                // a worker does
  bool has_layout_ = false;                  // the first element is there
};

}  // namespace poptorch
