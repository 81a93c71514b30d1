#include "table.h"

#include <fmt/format.h>

#include <algorithm>

namespace aspen {
namespace {

using Widths = std::vector<std::size_t>;  // without the space on either side

Widths widths_of(const std::vector<Column>& columns, const std::vector<Row>& rows) {
  Widths widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::size_t width = columns[i].name.size();
    for (const Row& row : rows) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  return widths;
}

// Of a line without the bars at its ends and the spaces next to them.
std::size_t inner_width(const Widths& widths) {
  std::size_t inner = 3 * (widths.size() - 1);
  for (std::size_t width : widths) inner += width;
  return inner;
}

std::string rule(const Widths& widths) {
  std::string line = "+";
  for (std::size_t width : widths) line += std::string(width + 2, '-') + "+";
  return line + "\n";
}

std::string aligned(const std::string& text, std::size_t width, Align align) {
  switch (align) {
    case Align::kLeft: return fmt::format(" {:<{}} ", text, width);
    case Align::kRight: return fmt::format(" {:>{}} ", text, width);
    case Align::kCentre: break;
  }
  return fmt::format(" {:^{}} ", text, width);
}

}  // namespace

std::string draw_table(const std::string& title, const std::vector<Column>& columns, const std::vector<Row>& rows) {
  Widths widths = widths_of(columns, rows);
  if (inner_width(widths) < title.size()) widths.back() += title.size() - inner_width(widths);
  const Widths whole = {inner_width(widths)};
  std::string text = rule(whole) + "|" + aligned(title, whole[0], Align::kCentre) + "|\n" + rule(widths) + "|";
  for (std::size_t i = 0; i < columns.size(); ++i) text += aligned(columns[i].name, widths[i], Align::kCentre) + "|";
  text += "\n" + rule(widths);
  for (const Row& row : rows) {
    text += "|";
    for (std::size_t i = 0; i < columns.size(); ++i) text += aligned(row[i], widths[i], columns[i].align) + "|";
    text += "\n";
  }
  return rows.empty() ? text : text + rule(widths);
}

}  // namespace aspen
