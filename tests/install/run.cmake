# Installs the library into an empty folder, then builds and runs the consumer against it; and the commands beside it.
#   cmake -D BUILD=<build folder> -P run.cmake
set(work ${BUILD}/tests/install)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${prefix} ${work}/consumer)
foreach(command
        "--install ${BUILD} --component cpp --prefix ${prefix}"
        "--install ${BUILD} --component monitor --prefix ${prefix}"
        "-S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/consumer -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH=${prefix}"
        "--build ${work}/consumer")
  separate_arguments(arguments UNIX_COMMAND ${command})
  execute_process(COMMAND ${CMAKE_COMMAND} ${arguments} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(program consumer first_program)
  execute_process(COMMAND ${work}/consumer/${program} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${prefix}/bin/gc-monitor --json COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${prefix}/bin/gc-info -l --json COMMAND_ERROR_IS_FATAL ANY)
