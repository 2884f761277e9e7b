# Builds the library for inference alone and its program, and compares its answers with those of the full library: a model as
# trained, in 8 bits, and stripped. PLIMSOLL is the program, FULL the same source as plimsoll_predict with the full library.
set(folder ${BUILD}/inference-check)
file(MAKE_DIRECTORY ${folder})
foreach(model trained small pruned stripped)
  file(REMOVE_RECURSE ${folder}/${model})
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${folder}/build -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_FLAGS=${FLAGS}
    -DPLIMSOLL_INFERENCE_ONLY=ON)
run(${CMAKE_COMMAND} --build ${folder}/build --target plimsoll_predict)
set(data --data /usr/share/datasets/fashion-mnist --memory 64MiB)
run(${PLIMSOLL} train fashion ${data} --batch 32 --steps 4 --save-model ${folder}/trained)
run(${PLIMSOLL} quantize ${folder}/trained ${data} --samples 32 -o ${folder}/small)
run(${PLIMSOLL} train mlp ${data} --batch 32 --steps 2 --prune to=0.8,begin=1 --save-model ${folder}/pruned)
run(${PLIMSOLL} strip ${folder}/pruned -o ${folder}/stripped --memory 64MiB)
string(REPEAT "0.25 -0.5 0.75 1 " 392 numbers) # two images of 28 x 28
file(WRITE ${folder}/numbers.txt "${numbers}")
foreach(model trained small stripped)
  foreach(program ${FULL} ${folder}/build/plimsoll_predict)
    execute_process(COMMAND ${program} ${folder}/${model} 64MiB INPUT_FILE ${folder}/numbers.txt OUTPUT_VARIABLE answers
                    ERROR_VARIABLE errors RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${program} ${model}: ${errors}")
    endif()
    list(APPEND of_${model} "${answers}")
  endforeach()
  list(GET of_${model} 0 full)
  list(GET of_${model} 1 alone)
  string(REGEX MATCHALL "[0-9]+[^ ]* " found "${full}")
  list(LENGTH found count)
  if(NOT count EQUAL 20 OR NOT full STREQUAL alone)
    message(FATAL_ERROR "${model}: ${count} answers of 20; the full library gave\n${full}\nthat for inference alone\n${alone}")
  endif()
endforeach()
# What is no model is one clear error.
execute_process(COMMAND ${folder}/build/plimsoll_predict ${folder} INPUT_FILE ${folder}/numbers.txt ERROR_VARIABLE errors
                RESULT_VARIABLE status)
if(NOT status EQUAL 1 OR NOT errors MATCHES "plimsoll_predict: .*model")
  message(FATAL_ERROR "a folder without a model: ${status} ${errors}")
endif()
