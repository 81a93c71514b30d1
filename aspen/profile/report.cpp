#include "aspen/profile/report.h"

#include <span>
#include <string_view>

#include "aspen/base/error.h"
#include "aspen/base/whole_file.h"
#include "aspen/profile/advice.h"
#include "aspen/profile/analyse.h"
#include "aspen/profile/page_template.h"
#include "aspen/profile/profile_json.h"
#include "aspen/profile/trace_json.h"

namespace aspen::profile {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& file, std::string_view text) { write_whole(file, {std::as_bytes(std::span(text))}); }

// In JSON, "<" stands in texts only, where it may be written otherwise: nothing there can end the element.
std::string script(std::string_view id, const std::string& json) {
  std::string result = fmt::format("<script id=\"{}\" type=\"application/json\">", id);
  result.reserve(json.size() + 100);
  for (const char c : json) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result + "</script>\n";
}

std::string page_of(const std::string& json, const Comparison* comparison) {
  if (!has_page()) {
    throw UserError(
        "[report] this build of Aspen has no report page: esbuild was not there when it was built. Install it "
        "(apt-get install esbuild), build again, and make the page with aspen-report from profile.json.");
  }
  const std::string_view page = page_template();
  const std::size_t mark = page.find(kDataMark);
  if (mark == std::string_view::npos) throw InternalError("the report page has no place for its data");
  std::string result(page.substr(0, mark));
  result += script("profile", json);
  if (comparison != nullptr) result += script("comparison", to_json(*comparison));
  result += page.substr(mark + kDataMark.size());
  return result;
}

}  // namespace

void finish(Profile& profile) {
  profile.analysis = analyse(profile);
  profile.analysis.advice = advise(profile);
}

void write_run(const fs::path& folder, Profile profile) {
  finish(profile);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError("[profile] cannot make the folder \"{}\": {}. Choose another one for the profile.", folder.string(),
                    error.message());
  }
  const std::string json = to_json(profile);
  write_text(folder / "profile.json", json);
  write_text(folder / "profile.pop", json);
  write_text(folder / "trace.json", to_trace_json(profile));
  if (has_page()) write_text(folder / "report.html", page_of(json, nullptr));
}

bool has_page() { return !page_template().empty(); }

std::string page(const Profile& profile, const Comparison* comparison) { return page_of(to_json(profile), comparison); }

void write_page(const fs::path& file, const Profile& profile, const Comparison* comparison) {
  write_text(file, page(profile, comparison));
}

}  // namespace aspen::profile
