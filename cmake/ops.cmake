# Sorts the files of op folders by suffix and writes the registration lists, so that a new folder edits no other file
# and drops out of no static library:
#   <f>.cpp      -> aspen_ops                define_<folder>(OpRegistry&)
#   <f>.ref.cpp  -> aspen_backend_reference  register_<folder>_ref(KernelRegistry&)
#   <f>.cpu.cpp  -> aspen_backend_cpu        register_<folder>_cpu(KernelRegistry&)
#   <f>_test.cpp -> the op tests
# A folder may hold several files of a kind; the function is defined in <folder>.cpp, <folder>.ref.cpp,
# <folder>.cpu.cpp.
#
# aspen_sort_ops(<prefix> <lists> <roots>...): the folders in <roots>; sets <prefix>_OP_SOURCES, _REF_SOURCES,
# _CPU_SOURCES and _OP_TESTS, and writes op_list.cpp, ref_list.cpp and cpu_list.cpp into the folder <lists>.
function(aspen_sort_ops prefix lists)
  list(TRANSFORM ARGN APPEND "/*/*.cpp" OUTPUT_VARIABLE patterns)
  file(GLOB op_files CONFIGURE_DEPENDS ${patterns})
  set(${prefix}_OP_SOURCES)
  set(${prefix}_REF_SOURCES)
  set(${prefix}_CPU_SOURCES)
  set(${prefix}_OP_TESTS)
  set(define_declarations "")
  set(define_calls "")
  set(ref_declarations "")
  set(ref_calls "")
  set(cpu_declarations "")
  set(cpu_calls "")
  foreach(file IN LISTS op_files)
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    get_filename_component(base ${file} NAME)
    if(base MATCHES "_test\\.cpp$")
      list(APPEND ${prefix}_OP_TESTS ${file})
    elseif(base MATCHES "\\.ref\\.cpp$")
      list(APPEND ${prefix}_REF_SOURCES ${file})
      if(base STREQUAL "${folder}.ref.cpp")
        string(APPEND ref_declarations "void register_${folder}_ref(KernelRegistry&);\n")
        string(APPEND ref_calls "  register_${folder}_ref(kernels);\n")
      endif()
    elseif(base MATCHES "\\.cpu\\.cpp$")
      list(APPEND ${prefix}_CPU_SOURCES ${file})
      if(base STREQUAL "${folder}.cpu.cpp")
        string(APPEND cpu_declarations "void register_${folder}_cpu(KernelRegistry&);\n")
        string(APPEND cpu_calls "  register_${folder}_cpu(kernels);\n")
      endif()
    else()
      list(APPEND ${prefix}_OP_SOURCES ${file})
      if(base STREQUAL "${folder}.cpp")
        string(APPEND define_declarations "void define_${folder}(OpRegistry&);\n")
        string(APPEND define_calls "  define_${folder}(ops);\n")
      endif()
    endif()
  endforeach()

  file(CONFIGURE OUTPUT ${lists}/op_list.cpp CONTENT
"#include \"aspen/compiler/ir/op_def.h\"
namespace aspen {
${define_declarations}
namespace {
OpRegistry make_registry() {
  OpRegistry ops;
${define_calls}  return ops;
}
}  // namespace
const OpRegistry& op_registry() {
  static const OpRegistry registry = make_registry();
  return registry;
}
}  // namespace aspen
" @ONLY)
  file(CONFIGURE OUTPUT ${lists}/ref_list.cpp CONTENT
"#include \"aspen/backends/reference/reference_backend.h\"
namespace aspen {
${ref_declarations}
void register_reference_kernels(KernelRegistry& kernels) {
${ref_calls}}
}  // namespace aspen
" @ONLY)
  file(CONFIGURE OUTPUT ${lists}/cpu_list.cpp CONTENT
"#include \"aspen/backends/cpu/cpu_backend.h\"
namespace aspen {
${cpu_declarations}
void register_cpu_kernels([[maybe_unused]] KernelRegistry& kernels) {
${cpu_calls}}
}  // namespace aspen
" @ONLY)
  foreach(kind OP_SOURCES REF_SOURCES CPU_SOURCES OP_TESTS)
    set(${prefix}_${kind} ${${prefix}_${kind}} PARENT_SCOPE)
  endforeach()
endfunction()

set(generated ${PROJECT_BINARY_DIR}/generated)
aspen_sort_ops(ASPEN ${generated} ${PROJECT_SOURCE_DIR}/aspen/ops)
