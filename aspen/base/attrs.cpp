#include "aspen/base/attrs.h"

#include <fmt/ranges.h>

namespace aspen {
namespace {

class Printer final : public AttrVisitor {
 public:
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
      for (auto byte : *field.bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
    }
    add(name, "0x" + hex);
  }
  void operator()(const char* name, std::shared_ptr<HostFunction>& field) override {
    add(name, quoted(field ? field->name() : ""));
  }

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
  std::string text_;
};

}  // namespace

std::string Attrs::to_string() const {
  Printer printer;
  holder_->visited(printer);
  return printer.text();
}

bool Attrs::operator==(const Attrs& other) const {
  return holder_ == other.holder_ || (holder_->type() == other.holder_->type() && to_string() == other.to_string());
}

}  // namespace aspen
