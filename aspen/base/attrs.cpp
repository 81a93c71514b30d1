#include "aspen/base/attrs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace aspen {
namespace {

class Printer final : public AttrVisitor {
 public:
  explicit Printer(std::size_t indent) : indent_(indent) {}
  void operator()(const char* name, std::int64_t& field) override { add(name, fmt::format("{}", field)); }
  void operator()(const char* name, double& field) override { add(name, number(field)); }
  void operator()(const char* name, bool& field) override { add(name, field ? "true" : "false"); }
  void operator()(const char* name, DType& field) override { add(name, std::string(name_of(field))); }
  void operator()(const char* name, std::string& field) override { add(name, quoted(field)); }
  void operator()(const char* name, std::vector<std::int64_t>& field) override {
    add(name, fmt::format("[{}]", fmt::join(field, ", ")));
  }
  void operator()(const char* name, std::vector<double>& field) override {
    std::string list;
    for (double item : field) list += (list.empty() ? "" : ", ") + number(item);
    add(name, fmt::format("[{}]", list));
  }
  void operator()(const char* name, Blob& field) override {
    std::string hex;
    if (field.bytes) {
      constexpr std::string_view kDigits = "0123456789abcdef";  // constants may be large: faster than fmt
      hex.reserve(2 * field.bytes->size());
      for (const auto byte : *field.bytes) {
        hex += kDigits[static_cast<unsigned>(byte) >> 4];
        hex += kDigits[static_cast<unsigned>(byte) & 15];
      }
    }
    add(name, "0x" + hex);
  }
  void operator()(const char* name, std::shared_ptr<HostFunction>& field) override {
    add(name, quoted(field ? field->name() : ""));
  }
  void operator()(const char* name, std::shared_ptr<CustomGradient>& field) override {
    add(name, quoted(field ? field->name() : ""));
  }
  void operator()(const char* name, Body& field) override { add(name, field ? field->text(indent_ + 2) : quoted("")); }

  std::string text() const { return text_.empty() ? "" : "{" + text_ + "}"; }

 private:
  // Always recognisable as a floating point number: "1.0", "1e-05", "inf".
  static std::string number(double value) {
    std::string text = fmt::format("{}", value);
    return text;
  }
  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
    return result + "\"";
  }
  void add(const char* name, const std::string& value) {
    text_ += fmt::format("{}{}={}", text_.empty() ? "" : ", ", name, value);
  }
  std::size_t indent_;
  std::string text_;
};

// Writes the fields down as bytes, so that equal structs give equal bytes. Blobs and bodies are kept aside: they may be
// large, and copies of a graph share them.
class Encoder final : public AttrVisitor {
 public:
  void operator()(const char*, std::int64_t& field) override { add(&field, sizeof(field)); }
  void operator()(const char*, double& field) override { add(&field, sizeof(field)); }
  void operator()(const char*, bool& field) override { add(&field, sizeof(field)); }
  void operator()(const char*, DType& field) override { add(&field, sizeof(field)); }
  void operator()(const char*, std::string& field) override { add_list(field.data(), field.size()); }
  void operator()(const char*, std::vector<std::int64_t>& field) override { add_list(field.data(), field.size()); }
  void operator()(const char*, std::vector<double>& field) override { add_list(field.data(), field.size()); }
  void operator()(const char*, Blob& field) override {
    std::size_t size = field.bytes ? field.bytes->size() : 0;
    add(&size, sizeof(size));
    blobs_.push_back(field);
  }
  void operator()(const char*, std::shared_ptr<HostFunction>& field) override { add_address(field.get()); }
  void operator()(const char*, std::shared_ptr<CustomGradient>& field) override { add_address(field.get()); }
  void operator()(const char*, Body& field) override {
    const std::size_t hash = field ? field->hash() : 0;
    add(&hash, sizeof(hash));
    bodies_.push_back(field);
  }

  std::size_t hash() const {
    std::size_t result = std::hash<std::string>()(bytes_);
    for (const Blob& blob : blobs_) {
      if (!blob.bytes) continue;
      std::string_view text(reinterpret_cast<const char*>(blob.bytes->data()), blob.bytes->size());
      result = result * 0x9E3779B97F4A7C15u + std::hash<std::string_view>()(text);
    }
    return result;
  }

  bool operator==(const Encoder& other) const {
    if (bytes_ != other.bytes_) return false;
    for (std::size_t i = 0; i < blobs_.size(); ++i) {
      const auto &a = blobs_[i].bytes, &b = other.blobs_[i].bytes;
      if (a != b && a && b && *a != *b) return false;  // their sizes are equal: they are among the bytes
    }
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const Body &a = bodies_[i], &b = other.bodies_[i];
      if (a != b && (!a || !b || !a->equals(*b))) return false;
    }
    return true;
  }

 private:
  void add(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  void add_address(const void* object) {
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    add(&address, sizeof(address));
  }
  template <class T>
  void add_list(const T* data, std::size_t count) {
    add(&count, sizeof(count));
    add(data, count * sizeof(T));
  }

  std::string bytes_;
  std::vector<Blob> blobs_;
  std::vector<Body> bodies_;
};

}  // namespace

std::string Attrs::to_string(std::size_t indent) const {
  Printer printer(indent);
  holder_->visited(printer);
  return printer.text();
}

bool Attrs::operator==(const Attrs& other) const {
  if (holder_ == other.holder_) return true;
  if (holder_->type() != other.holder_->type() || hash() != other.hash()) return false;
  Encoder mine, theirs;
  holder_->visited(mine);
  other.holder_->visited(theirs);
  return mine == theirs;
}

std::size_t Attrs::hash() const {
  std::size_t known = holder_->hash.load(std::memory_order_relaxed);
  if (known != 0) return known;
  Encoder encoder;
  holder_->visited(encoder);
  known = std::max<std::size_t>(1, encoder.hash() ^ holder_->type().hash_code());
  holder_->hash.store(known, std::memory_order_relaxed);
  return known;
}

}  // namespace aspen
