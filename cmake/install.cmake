# find_package(poptorch) for C++ projects; what is installed where is said beside the targets (poptorch/CMakeLists.txt).
#   cmake --install build/release --prefix <dir>                          library, headers, this package
#   cmake --install build/release --component python --prefix <dir>       the Python package, into <dir>
#   cmake --install build/release --component run --prefix <dir>          aspen-run alone (apps/CMakeLists.txt)
#   cmake --install build/release --component monitor --prefix <dir>      gc-monitor and gc-info alone (likewise)
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/poptorch)
install(EXPORT poptorch-targets NAMESPACE poptorch:: DESTINATION ${config_dir} COMPONENT cpp)
configure_package_config_file(cmake/poptorch-config.cmake.in ${PROJECT_BINARY_DIR}/poptorch-config.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/poptorch-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/poptorch-config.cmake ${PROJECT_BINARY_DIR}/poptorch-config-version.cmake
        DESTINATION ${config_dir} COMPONENT cpp)
