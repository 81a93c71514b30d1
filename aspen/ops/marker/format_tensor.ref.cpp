#include "aspen/ops/marker/format_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "aspen/backends/api/convert.h"

namespace aspen {
namespace {

constexpr std::int64_t kEllipsis = -1;

class Formatter {
 public:
  Formatter(const TensorType& type, const void* data, const PrintAttrs& attrs)
      : type_(type), data_(data), attrs_(attrs), strides_(contiguous_strides(type.shape)) {
    summarise_ = attrs.summarise_threshold > 0 && type.numel() > attrs.summarise_threshold;
    choose_format();
  }

  std::string text() const { return type_.shape.empty() ? element(0) : level(0, 0); }

 private:
  bool aligned() const { return attrs_.digits > 0; }

  double number(std::int64_t i) const {
    return dispatch_stored(type_.dtype, [&](auto tag) {
      return convert<double>(static_cast<const typename decltype(tag)::type*>(data_)[i]);
    });
  }

  // Positions to show along an axis; kEllipsis stands for what is left out.
  std::vector<std::int64_t> shown(std::int64_t extent) const {
    std::vector<std::int64_t> places;
    bool cut = summarise_ && extent > 2 * attrs_.edge_items;
    for (std::int64_t i = 0; i < extent; ++i) {
      if (cut && i == attrs_.edge_items) {
        places.push_back(kEllipsis);
        i = extent - attrs_.edge_items;
        if (attrs_.edge_items == 0) break;
      }
      places.push_back(i);
    }
    return places;
  }

  template <class F>
  void for_each_shown(std::size_t axis, std::int64_t base, F&& f) const {
    if (axis == type_.shape.size()) return f(base);
    for (auto i : shown(type_.shape[axis])) {
      if (i != kEllipsis) for_each_shown(axis + 1, base + i * strides_[axis], f);
    }
  }

  // auto: fixed, unless the numbers shown span too much for `digits` digits.
  void choose_format() {
    scientific_ = attrs_.float_format == "scientific";
    double largest = 0, smallest = INFINITY;
    for_each_shown(0, 0, [&](std::int64_t i) {
      double magnitude = std::fabs(number(i));
      if (!std::isfinite(magnitude) || magnitude == 0) return;
      largest = std::max(largest, magnitude);
      smallest = std::min(smallest, magnitude);
    });
    if (attrs_.float_format == "auto") {
      auto precision = static_cast<double>(std::max<std::int64_t>(attrs_.digits, 4));
      scientific_ = largest >= std::pow(10, precision) || (largest > 0 && smallest < std::pow(10, -precision));
    }
    // All digits count, those before the point as well; the largest number has the most of these.
    const std::int64_t before_point =
        scientific_ || largest < 10 ? 1 : 1 + static_cast<std::int64_t>(std::log10(largest));
    decimals_ = std::max<std::int64_t>(0, attrs_.digits - before_point);
    if (!aligned()) return;
    for_each_shown(0, 0, [&](std::int64_t i) { width_ = std::max(width_, element(i).size()); });
  }

  std::string element(std::int64_t i) const { return fmt::format("{:>{}}", unaligned(i), width_); }

  std::string unaligned(std::int64_t i) const {
    double value = number(i);
    if (type_.dtype == DType::kBool) return value != 0 ? "true" : "false";
    if (!is_floating(type_.dtype)) return fmt::format("{:.0f}", value);
    if (attrs_.float_format == "none" || !aligned() || !std::isfinite(value)) return fmt::format("{:g}", value);
    return scientific_ ? fmt::format("{:.{}e}", value, decimals_) : fmt::format("{:.{}f}", value, decimals_);
  }

  std::string level(std::size_t axis, std::int64_t base) const {
    return axis + 1 == type_.shape.size() ? row(axis, base) : rows(axis, base);
  }

  // Each row on a line of its own, the brackets around them too.
  std::string rows(std::size_t axis, std::int64_t base) const {
    std::string text = attrs_.open_bracket;
    for (auto i : shown(type_.shape[axis])) {
      text += "\n" + indent(axis + 1) + (i == kEllipsis ? "..." : level(axis + 1, base + i * strides_[axis]));
    }
    return text + "\n" + indent(axis) + attrs_.close_bracket;
  }

  std::string row(std::size_t axis, std::int64_t base) const {
    std::string text = attrs_.open_bracket;
    std::size_t line = indent(axis).size() + text.size();
    bool first = true;
    for (auto i : shown(type_.shape[axis])) {
      std::string item = i == kEllipsis ? "..." : element(base + i);
      if (!first) {
        std::size_t longer = line + attrs_.separator.size() + item.size();
        if (attrs_.max_line_width > 0 && longer > static_cast<std::size_t>(attrs_.max_line_width)) {
          text += trimmed_separator() + "\n" + indent(axis + 2);
          line = axis + 2;
        } else {
          text += attrs_.separator;
          line += attrs_.separator.size();
        }
      }
      first = false;
      text += item;
      line += item.size();
    }
    return text + attrs_.close_bracket;
  }

  static std::string indent(std::size_t depth) { return std::string(depth, ' '); }

  // A separator at the end of a line needs no blank after it.
  std::string trimmed_separator() const {
    std::string text = attrs_.separator;
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

  const TensorType& type_;
  const void* data_;
  const PrintAttrs& attrs_;
  std::vector<std::int64_t> strides_;
  bool summarise_ = false, scientific_ = false;
  std::size_t width_ = 0;
  std::int64_t decimals_ = 0;
};

}  // namespace

std::string format_tensor(const TensorType& type, const void* data, const PrintAttrs& attrs) {
  return Formatter(type, data, attrs).text();
}

}  // namespace aspen
