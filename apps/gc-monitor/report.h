// What gc-monitor says of two looks at the machine, for people and for scripts.
#pragma once

#include <cstddef>
#include <string>

#include "aspen/ipus/attachments.h"

namespace aspen {

// width: of lines, where commands can be made short enough for it.
std::string text_report(const Attachments& before, const Attachments& after, std::size_t width);
// One line.
std::string json_report(const Attachments& before, const Attachments& after);

}  // namespace aspen
