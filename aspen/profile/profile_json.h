// Profiles as JSON, as docs/profile-format.md describes it, and as files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "aspen/profile/profile.h"

namespace aspen::profile {

std::string to_json(const Profile& profile);
// A UserError names the field, what it holds and what is expected. Everything that refers to a row of another table is
// checked: who has a profile from here need not look again.
Profile from_json(std::string_view text);

// Files are written whole or not at all; errors name the file.
void write_profile(const std::filesystem::path& file, const Profile& profile);
Profile read_profile(const std::filesystem::path& file);

}  // namespace aspen::profile
