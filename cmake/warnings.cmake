# Warnings and sanitizers for our own targets.
function(aspen_options target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers)
  if(ASPEN_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${ASPEN_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${ASPEN_SANITIZE})
  endif()
endfunction()
