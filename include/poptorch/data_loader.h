// DataLoader: reads a data set in items of the size that one call of a model takes, ahead of it if there are workers.
//
//   struct Faces {                                             // any type with get and size
//     std::pair<at::Tensor, std::int64_t> get(std::size_t index);
//     std::size_t size() const;
//   };
//   poptorch::DataLoaderOptions settings;
//   settings.batch_size = 16;
//   settings.num_workers = 2;
//   poptorch::DataLoader loader(options, Faces("train"), settings);
//   for (const auto& item : loader) model.run(item);           // each loop is an epoch
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "poptorch/options.h"
#include "poptorch/structure.h"

namespace poptorch {

enum class DataLoaderMode {
  Sync,           // an epoch is read from the start to the end of a loop over it
  Async,          // threads read ahead at any time, after the last item of an epoch the first ones of the next
  AsyncRebatched  // the same; workers fetch rebatched_worker_size elements at a time
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;   // of a micro-batch
  bool shuffle = false;          // a new order in each epoch, drawn as Python's loader does
  bool drop_last = true;         // leaves out what does not fill an item; otherwise the last item is smaller
  std::int64_t num_workers = 0;  // threads that fetch elements; none: the caller's, or a single one if asynchronous
  DataLoaderMode mode = DataLoaderMode::Sync;
  std::optional<std::int64_t> rebatched_worker_size;  // the combined batch size unless set, which it may not exceed
  std::optional<std::int64_t> buffer_size;            // items held ready by workers; what keeps them busy unless set
  bool load_indefinitely = true;                      // asynchronous: reads the next epoch before its loop begins
  bool early_preload = false;                         // asynchronous: starts before the first loop
  bool auto_distributed_partitioning = true;          // one of several processes reads its share only
};

// A data set as the loader sees it; made from one by the constructors of DataLoader. One of the functions is set.
struct DataSource {
  using Tensors = std::vector<at::Tensor>;
  // Called by several workers at once.
  std::function<Tensors(std::int64_t index)> get;
  std::function<Tensors(const std::vector<std::int64_t>& indices)> get_batch;  // collated
  // Called by one worker at a time, in order.
  std::function<std::optional<Tensors>()> next;
  std::function<std::pair<Tensors, std::int64_t>(std::int64_t count)> next_batch;  // collated, with the number of rows
  std::function<void()> reset;                                                     // before each epoch; may be empty
  std::optional<std::int64_t> size;
};

// Items come in the same order whatever the number of workers. The tensors of an item are yours: a buffer is written
// again only when nobody holds a tensor of it any more.
class DataLoader {
  struct State;

 public:
  using Item = std::vector<at::Tensor>;

  // The data set is a type with get(index) and size(), one of torch::data::datasets, or an iterable one: next()
  // returns an optional that is empty at the end, reset() is called before each epoch if there is such a function.
  // An element is a tensor, a number, or a vector, array, pair, tuple, torch::data::Example or struct (structure.h) of
  // such; elements are stacked. With several workers get is called from several threads at once.
  template <class DataSet>
  DataLoader(const Options& options, DataSet dataset, const DataLoaderOptions& settings = {});
  // The same with a function of your own that makes the tensors of a batch from a vector of elements, of any type.
  template <class DataSet, class Collate, class = std::enable_if_t<!std::is_convertible_v<Collate, DataLoaderOptions>>>
  DataLoader(const Options& options, DataSet dataset, Collate collate, const DataLoaderOptions& settings = {});
  DataLoader(const Options& options, DataSource source, const DataLoaderOptions& settings = {});
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using pointer = const Item*;
    using reference = const Item&;

    const Item& operator*() const { return item_; }
    const Item* operator->() const { return &item_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    // Iterators are compared to find the end only.
    bool operator==(const Iterator& other) const { return state_ == other.state_; }
    bool operator!=(const Iterator& other) const { return state_ != other.state_; }

   private:
    friend class DataLoader;
    State* state_ = nullptr;  // null at the end
    std::int64_t epoch_ = 0;
    Item item_;
  };
  // Starts an epoch; one that was left early is over. The iterator ends with the loader and with the next begin().
  Iterator begin();
  Iterator end() { return {}; }

  // Rows of each item: batch size * device iterations * input groups * gradient accumulation.
  std::int64_t combinedBatchSize() const;
  // Items of an epoch; an error for an iterable data set that does not tell its size.
  std::int64_t size() const;
  // Ends the threads of an asynchronous loader, which gives no items any more.
  void terminate();

 private:
  std::unique_ptr<State> state_;
};

namespace detail {

// Called where an exception was caught: throws it on with the name of the element.
[[noreturn]] void rethrow_of_element(std::int64_t index);
at::Tensor number(bool value);
at::Tensor number(std::int64_t value);
at::Tensor number(float value);
at::Tensor number(double value);

template <class T>
concept IsExample = requires(const T& value) {  // torch::data::Example
  value.data;
  value.target;
};
template <class T>
concept IsRange = requires(const T& value) {
  std::begin(value);
};
template <class T>
concept HasGet = requires(T& dataset) {
  dataset.get(std::size_t());
};
template <class T>
concept HasNext = requires(T& dataset) {
  dataset.next();
};

template <class T>
void append_tensors(const T& value, std::vector<at::Tensor>& into) {
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {  // an Example without target is, too
    into.push_back(value);
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, float> || std::is_same_v<T, double>) {
    into.push_back(number(value));
  } else if constexpr (std::is_integral_v<T>) {
    into.push_back(number(static_cast<std::int64_t>(value)));
  } else if constexpr (IsExample<T>) {
    append_tensors(value.data, into);
    append_tensors(value.target, into);
  } else if constexpr (IsRange<T>) {
    for (const auto& part : value) append_tensors(part, into);
  } else if constexpr (HasMembers<T>) {
    append_tensors(Structure<T>::members(const_cast<T&>(value)), into);
  } else if constexpr (IsTuple<T>) {
    std::apply([&](const auto&... parts) { (append_tensors(parts, into), ...); }, value);
  } else {
    static_assert(always_false<T>, "an element of a data set is made of tensors and numbers");
  }
}

template <class T>
std::vector<at::Tensor> tensors_of(const T& element) {
  std::vector<at::Tensor> tensors;
  append_tensors(element, tensors);
  return tensors;
}

template <class DataSet>
std::optional<std::int64_t> size_of(const DataSet& dataset) {
  if constexpr (!requires { dataset.size(); }) {
    return std::nullopt;
  } else if constexpr (requires { dataset.size().has_value(); }) {
    const auto size = dataset.size();
    return size.has_value() ? std::optional<std::int64_t>(static_cast<std::int64_t>(*size)) : std::nullopt;
  } else {
    return static_cast<std::int64_t>(dataset.size());
  }
}

// One element, whose name an exception takes along. Data sets with transforms have get_batch only.
template <class DataSet>
decltype(auto) element_of(DataSet& dataset, std::int64_t index) {
  try {
    const auto position = static_cast<std::size_t>(index);
    if constexpr (HasGet<DataSet>) {
      return dataset.get(position);
    } else {
      return dataset.get_batch(c10::ArrayRef<std::size_t>(position));
    }
  } catch (...) {
    rethrow_of_element(index);
  }
}

template <class DataSet>
DataSource source_of_stream(std::shared_ptr<DataSet> dataset) {
  DataSource source;
  source.size = size_of(*dataset);
  if constexpr (requires { dataset->reset(); }) source.reset = [dataset] { dataset->reset(); };
  return source;
}

template <class DataSet>
DataSource source_of(std::shared_ptr<DataSet> dataset) {
  if constexpr (HasNext<DataSet>) {
    DataSource source = source_of_stream(dataset);
    source.next = [dataset]() -> std::optional<std::vector<at::Tensor>> {
      const auto element = dataset->next();
      if (!element.has_value()) return std::nullopt;
      return tensors_of(*element);
    };
    return source;
  } else {
    DataSource source;
    source.size = size_of(*dataset);
    if constexpr (!HasGet<DataSet> && IsExample<decltype(element_of(*dataset, 0))>) {
      source.get_batch = [dataset](const std::vector<std::int64_t>& indices) {  // one that collates: torch's Stack
        return tensors_of(dataset->get_batch(std::vector<std::size_t>(indices.begin(), indices.end())));
      };
    } else {
      source.get = [dataset](std::int64_t index) { return tensors_of(element_of(*dataset, index)); };
    }
    return source;
  }
}

template <class DataSet, class Collate>
DataSource source_of(std::shared_ptr<DataSet> dataset, Collate collate) {
  if constexpr (HasNext<DataSet>) {
    DataSource source = source_of_stream(dataset);
    source.next_batch = [dataset, collate](std::int64_t count) mutable {
      std::vector<std::decay_t<decltype(*dataset->next())>> elements;
      while (static_cast<std::int64_t>(elements.size()) < count) {
        auto element = dataset->next();
        if (!element.has_value()) break;
        elements.push_back(*std::move(element));
      }
      const auto rows = static_cast<std::int64_t>(elements.size());
      return std::pair(rows == 0 ? std::vector<at::Tensor>() : tensors_of(collate(std::move(elements))), rows);
    };
    return source;
  } else {
    static_assert(HasGet<DataSet>, "a data set to be collated has get(index)");
    DataSource source;
    source.size = size_of(*dataset);
    source.get_batch = [dataset, collate](const std::vector<std::int64_t>& indices) {
      std::vector<std::decay_t<decltype(dataset->get(0))>> elements;
      elements.reserve(indices.size());
      for (const std::int64_t index : indices) elements.push_back(element_of(*dataset, index));
      return tensors_of(collate(std::move(elements)));
    };
    return source;
  }
}

}  // namespace detail

template <class DataSet>
DataLoader::DataLoader(const Options& options, DataSet dataset, const DataLoaderOptions& settings)
    : DataLoader(options, detail::source_of(std::make_shared<DataSet>(std::move(dataset))), settings) {}

template <class DataSet, class Collate, class>
DataLoader::DataLoader(const Options& options, DataSet dataset, Collate collate, const DataLoaderOptions& settings)
    : DataLoader(options, detail::source_of(std::make_shared<DataSet>(std::move(dataset)), std::move(collate)),
                 settings) {}

}  // namespace poptorch
