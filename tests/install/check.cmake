# Installs BUILD into an empty prefix, builds the program beside this file against it, and compares what it prints.
set(prefix ${BUILD}/install-check/prefix)
set(outside ${BUILD}/install-check/build)
file(REMOVE_RECURSE ${BUILD}/install-check)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${outside} -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${CMAKE_COMMAND} --build ${outside})
run(${outside}/outside)
file(READ ${CMAKE_CURRENT_LIST_DIR}/expected.txt expected)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "it printed\n${output}\nbut should print\n${expected}")
endif()
