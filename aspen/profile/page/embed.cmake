# Puts the bundled script and style into the template, and the result into a C++ source file.
file(READ ${TEMPLATE} html)
file(READ ${SCRIPT} script)
file(READ ${STYLE} style)
string(STRIP "${script}" script)
string(STRIP "${style}" style)
string(REPLACE "/*style*/" "${style}" html "${html}")
string(REPLACE "/*script*/" "${script}" html "${html}")
file(WRITE ${OUTPUT} "#include \"aspen/profile/page_template.h\"

namespace aspen::profile {

std::string_view page_template() {
  return R\"page~~(${html})page~~\";
}

}  // namespace aspen::profile
")
