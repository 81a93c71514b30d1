# Finds the interpreter the front end is built for: the first python3 that has torch. Debian's own comes first,
# since another python3 often precedes it on the PATH and knows nothing of Debian's packages.
if(NOT ASPEN_PYTHON)
  find_program(python_on_path python3 NO_CACHE)
  foreach(candidate /usr/bin/python3 ${python_on_path})
    execute_process(COMMAND ${candidate} -c "import importlib.util as u; exit(u.find_spec('torch') is None)"
                    RESULT_VARIABLE has_no_torch OUTPUT_QUIET ERROR_QUIET)
    if(has_no_torch EQUAL 0)
      set(ASPEN_PYTHON ${candidate} CACHE FILEPATH "Python interpreter that has torch")
      break()
    endif()
  endforeach()
endif()
if(NOT ASPEN_PYTHON)
  message(FATAL_ERROR "No python3 with torch found (tried /usr/bin/python3 and the PATH). Install python3-torch, name the "
                      "interpreter with -DASPEN_PYTHON=..., or build without the front end: -DASPEN_FRONTEND=OFF.")
endif()
set(Python_EXECUTABLE ${ASPEN_PYTHON})
set(Python3_EXECUTABLE ${ASPEN_PYTHON})
set(PYTHON_EXECUTABLE ${ASPEN_PYTHON})
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
