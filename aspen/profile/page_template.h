// The page without data, as a bundler made it of aspen/profile/page: one of two source files, page_absent.cpp where
// there is no bundler.
#pragma once

#include <string_view>

namespace aspen::profile {

// HTML with kDataMark where the data goes; empty in a build without the page.
std::string_view page_template();

inline constexpr std::string_view kDataMark = "<!--data-->";

}  // namespace aspen::profile
