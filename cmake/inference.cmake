# PLIMSOLL_INFERENCE_ONLY: one library that loads stored models and predicts (<plimsoll/predictor.h>). It has no training, no
# data formats, no eager code and no command line, and needs neither zlib nor image libraries.
include(GNUInstallDirs)

# Whole folders, and those files of others that loading a model needs.
set(inference_sources)
foreach(folder base graph kernels ops memory plan lower run weights session store)
  file(GLOB_RECURSE of_folder CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  list(APPEND inference_sources ${of_folder})
endforeach()
list(TRANSFORM inference_sources REPLACE "^${PROJECT_SOURCE_DIR}/" "")
list(APPEND inference_sources
     src/model/loss.cpp src/model/metric.cpp src/model/more_metrics.cpp src/model/model.cpp src/model/normalisation.cpp src/model/rewrite.cpp src/model/shapes.cpp
     src/report/data.cpp src/report/forecast.cpp src/report/json.cpp src/report/plan_report.cpp src/report/scale_report.cpp src/report/words.cpp)

add_library(plimsoll ${inference_sources})
add_library(plimsoll::plimsoll ALIAS plimsoll)
target_compile_options(plimsoll PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
                                        -Wno-restrict) # as src/CMakeLists.txt has them
target_compile_definitions(plimsoll PRIVATE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")
target_include_directories(plimsoll PRIVATE src INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(plimsoll PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                           $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
target_compile_features(plimsoll PUBLIC cxx_std_20)
set_target_properties(plimsoll PROPERTIES POSITION_INDEPENDENT_CODE ON VERSION ${PROJECT_VERSION}
                                          SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(PLIMSOLL_STATIC_LIBRARIES dnnl hwy fmt gomp pthread)
target_link_libraries(plimsoll PRIVATE $<BUILD_INTERFACE:fmt::fmt> $<BUILD_INTERFACE:DNNL::dnnl> $<BUILD_INTERFACE:hwy::hwy>
                                       $<BUILD_INTERFACE:OpenMP::OpenMP_CXX>
                                       $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
include(cmake/package.cmake)

# Prints the size of a program that only predicts: what a device carries.
add_executable(plimsoll_predict ${PROJECT_SOURCE_DIR}/cmake/predict.cpp)
target_link_libraries(plimsoll_predict PRIVATE plimsoll)
target_link_options(plimsoll_predict PRIVATE -s)
add_custom_command(TARGET plimsoll_predict POST_BUILD
                   COMMAND ${CMAKE_COMMAND} -DLIBRARY=$<TARGET_FILE:plimsoll> -DPROGRAM=$<TARGET_FILE:plimsoll_predict>
                           -P ${PROJECT_SOURCE_DIR}/cmake/print_size.cmake)
