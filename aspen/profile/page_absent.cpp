#include "aspen/profile/page_template.h"

namespace aspen::profile {

std::string_view page_template() { return {}; }

}  // namespace aspen::profile
