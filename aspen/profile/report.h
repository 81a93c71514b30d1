// The folder of a run and the page in it. Called by the front end while and after a run, and by aspen-report.
#pragma once

#include <filesystem>
#include <string>

#include "aspen/profile/compare.h"
#include "aspen/profile/profile.h"

namespace aspen::profile {

// Fills in Profile::analysis.
void finish(Profile& profile);

// Writes profile.json, profile.pop, trace.json and report.html, each whole; makes the folder if it is not there. A
// build without the page (has_page() is false) leaves report.html out. `profile` is finished first.
void write_run(const std::filesystem::path& folder, Profile profile);

// Whether this build has the page: it takes a bundler (esbuild) to build it.
bool has_page();
// The page with the data in it: one file that needs no other. With a comparison, that is its first tab. In a build
// without the page a UserError that says how to get it.
std::string page(const Profile& profile, const Comparison* comparison = nullptr);
void write_page(const std::filesystem::path& file, const Profile& profile, const Comparison* comparison = nullptr);

}  // namespace aspen::profile
