// A table of text with a title, drawn with + - and |, every column as wide as what is in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace aspen {

enum class Align : std::uint8_t { kLeft, kCentre, kRight };

struct Column {
  std::string name;
  Align align = Align::kCentre;
};

using Row = std::vector<std::string>;  // a text per column; plain characters only

std::string draw_table(const std::string& title, const std::vector<Column>& columns, const std::vector<Row>& rows);

}  // namespace aspen
