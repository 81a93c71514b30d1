// Marks inside a forward that change no result: names of ops, and hints to the compiler. Outside a captured model they
// have no effect.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poptorch {

// The ops captured while it lives are named "<name>/...".
class NameScope {
 public:
  explicit NameScope(std::string name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  bool is_open_ = false;
};

// Attributes of the ops captured while it lives: groups of texts with names.
class Attribute {
 public:
  using Groups = std::map<std::string, std::map<std::string, std::string>>;
  explicit Attribute(const Groups& groups);  // a group takes the place of one of that name around it
  ~Attribute();
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;
  static const Groups& active();  // on this thread

 private:
  Groups previous_;
};

enum class MultiConvPlanType { Parallel, Serial };

// Convolutions that are independent of each other and planned together. Settings are one for all of them, or a list
// with one for each; an empty list leaves the setting to the compiler.
class MultiConv {
 public:
  MultiConv& availableMemoryProportions(std::vector<double> proportions);
  MultiConv& partialsTypes(std::vector<c10::ScalarType> types);  // float or half
  MultiConv& enableConvDithering(std::vector<bool> enabled);
  MultiConv& planType(std::optional<MultiConvPlanType> type);
  MultiConv& perConvReservedTiles(std::int64_t tiles);
  MultiConv& cycleBackOff(double value);

  // Calls f, whose convolutions are the ones meant: auto [a, b] = convs([&] { return std::pair(first(x), second(y));
  // }).
  template <class Function>
  auto operator()(Function&& function) {
    begin();
    struct Open {
      MultiConv& convs;
      bool is_open = true;
      ~Open() {
        if (is_open) convs.abandon();
      }
    } open{*this};
    auto result = function();
    open.is_open = false;
    end();
    return result;
  }
  // The same in parts. After begin comes end, or abandon if something failed in between. Errors if scopes nest, if
  // there was no convolution, or if a list is not as long as there were convolutions.
  void begin();
  void end();
  void abandon() noexcept;

 private:
  void check_length(const char* setting, std::size_t length, std::size_t convolutions) const;

  std::vector<double> proportions_;
  std::vector<c10::ScalarType> partials_;
  std::vector<bool> dithering_;
  std::optional<MultiConvPlanType> plan_;
  std::optional<std::int64_t> reserved_tiles_;
  std::optional<double> cycle_back_off_;
  std::size_t before_ = 0;  // convolutions of the model when the scope began
};

}  // namespace poptorch
