#include "aspen/base/error.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "aspen/base/device_fault.h"

namespace aspen {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::string internal_text(const std::string& what, const std::source_location& where) {
  std::string_view file = where.file_name();
  if (auto slash = file.find("aspen/"); slash != std::string_view::npos) file.remove_prefix(slash);
  return fmt::format(
      "internal error at {}:{}: {}\nThis is a bug in Aspen; please report it with the model that caused it.", file,
      where.line(), what);
}

void rethrow_with_context(std::string_view line) {
  std::string tail = fmt::format("\n  {}", line);
  try {
    throw;
  } catch (const UserError& e) {
    throw UserError("{}{}", e.what(), tail);
  } catch (const DeviceFault& e) {
    throw DeviceFault(e.repair(), "{}{}", e.what(), tail);
  } catch (const DeviceError& e) {
    throw DeviceError("{}{}", e.what(), tail);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw DeviceFault(Repair::kDeviceReset, "there is not enough memory.{}", tail);
  } catch (const std::exception& e) {
    throw Error(e.what() + tail);
  }
}

std::string near_matches(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const auto& candidate : candidates) ranked.emplace_back(edit_distance(word, candidate), candidate);
  std::sort(ranked.begin(), ranked.end());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, ranked.size()); ++i) {
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", ranked[i].second);
  }
  return text;
}

}  // namespace aspen
