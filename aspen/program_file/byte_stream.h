// Structs as bytes and back. One function lists the fields of a struct, for both directions; it names all of them, so
// that a new one cannot be forgotten:
//
//   template <class Stream>
//   void visit(Stream& stream, Wait& wait) {
//     auto& [task, lag] = wait;
//     stream(task, lag);
//   }
//
// Numbers are little-endian, sizes 8 bytes, lists and text a size and what follows. The reader believes nothing: it
// never reads past the end, makes room for a list only as its items arrive, goes only so deep into structs within
// structs, and a value that cannot be is a FileError.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "aspen/base/error.h"

namespace aspen {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and are read as they are");

// A file that is no program, or not one that was written whole. The caller adds which file it was.
class FileError : public UserError {
 public:
  using UserError::UserError;
};

template <class T>
concept Number = std::is_integral_v<T> || std::is_floating_point_v<T>;

// Self: the class derived from it, which `visit` sees.
template <class Self>
class ByteWriter {
 public:
  static constexpr bool kReads = false;

  template <class... Fields>
  void operator()(Fields&... fields) {
    (add(fields), ...);
  }
  // A value of an enum whose last one is `last`.
  template <class E>
  void choice(E& value, E) {
    auto number = static_cast<std::uint8_t>(value);
    add(number);
  }

  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <Number T>
  void add(T& number) {
    raw(std::as_bytes(std::span(&number, 1)));
  }
  void add(std::string& text) {
    std::uint64_t size = text.size();
    add(size);
    raw(std::as_bytes(std::span(text)));
  }
  void add(std::vector<std::byte>& bytes) {
    std::uint64_t size = bytes.size();
    add(size);
    raw(bytes);
  }
  template <class T>
  void add(std::vector<T>& items) {
    std::uint64_t size = items.size();
    add(size);
    for (T& item : items) add(item);
  }
  template <class T>
  void add(T& fields) {
    visit(static_cast<Self&>(*this), fields);
  }

  std::vector<std::byte> bytes_;
};

template <class Self>
class ByteReader {
 public:
  static constexpr bool kReads = true;

  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class... Fields>
  void operator()(Fields&... fields) {
    (take(fields), ...);
  }
  template <class E>
  void choice(E& value, E last) {
    std::uint8_t number = 0;
    take(number);
    if (number > static_cast<std::uint8_t>(last)) {
      throw FileError("a choice is {} where there are {}", number, static_cast<int>(last) + 1);
    }
    value = static_cast<E>(number);
  }

  std::span<const std::byte> raw(std::uint64_t size) {
    if (size > rest_.size()) throw FileError("{} bytes are wanted where {} are left", size, rest_.size());
    auto bytes = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return bytes;
  }
  void expect_end() const {
    if (!rest_.empty()) throw FileError("{} bytes are left over", rest_.size());
  }

 private:
  template <Number T>
  void take(T& number) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t bit = 0;
      take(bit);
      if (bit > 1) throw FileError("a yes or no is {}", bit);
      number = bit == 1;
    } else {
      std::memcpy(&number, raw(sizeof(T)).data(), sizeof(T));
    }
  }
  std::uint64_t size() {
    std::uint64_t number = 0;
    take(number);
    return number;
  }
  void take(std::string& text) {
    auto bytes = raw(size());
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void take(std::vector<std::byte>& bytes) {
    auto read = raw(size());
    bytes.assign(read.begin(), read.end());
  }
  template <class T>
  void take(std::vector<T>& items) {
    const std::uint64_t count = size();
    if (count > rest_.size()) throw FileError("a list of {} items where {} bytes are left", count, rest_.size());
    items.clear();
    for (std::uint64_t i = 0; i < count; ++i) take(items.emplace_back());
  }
  template <class T>
  void take(T& fields) {
    if (depth_ == kDeepest) throw FileError("it is nested more than {} deep", kDeepest);
    ++depth_;
    visit(static_cast<Self&>(*this), fields);
    --depth_;
  }

  static constexpr int kDeepest = 64;  // of structs within structs; an instruction may hold others

  std::span<const std::byte> rest_;
  int depth_ = 0;
};

}  // namespace aspen
