# The report page: page/*.ts and style.css, bundled by esbuild and put into page.html, become a source file of
# aspen_profile. The same sources make the same bytes; nothing is fetched. An absent bundler is another source file.
find_program(ESBUILD esbuild)
if(ESBUILD)
  set(page ${CMAKE_CURRENT_SOURCE_DIR}/profile/page)
  set(bundle ${PROJECT_BINARY_DIR}/generated/page)
  file(GLOB page_inputs CONFIGURE_DEPENDS ${page}/*.ts ${page}/*.css ${page}/page.html ${page}/*.cmake ${page}/tsconfig.json)
  add_custom_command(
    OUTPUT ${bundle}/page_bundle.cpp
    COMMAND ${ESBUILD} ${page}/main.ts --bundle --minify --format=iife --target=es2020 --log-level=warning
            --outfile=${bundle}/page.js
    COMMAND ${ESBUILD} ${page}/style.css --minify --target=chrome100,firefox100,safari15 --log-level=warning
            --outfile=${bundle}/page.css
    COMMAND ${CMAKE_COMMAND} -D TEMPLATE=${page}/page.html -D SCRIPT=${bundle}/page.js -D STYLE=${bundle}/page.css
            -D OUTPUT=${bundle}/page_bundle.cpp -P ${page}/embed.cmake
    DEPENDS ${page_inputs} VERBATIM COMMENT "Bundling the report page")
  list(FILTER profile_sources EXCLUDE REGEX "/page_absent\\.cpp$")
  list(APPEND profile_sources ${bundle}/page_bundle.cpp)
else()
  message(NOTICE "esbuild is not there: reports will have no page (report.html)")
endif()
