# One library of all folders, static or shared (BUILD_SHARED_LIBS), with the public headers alone.
include(GNUInstallDirs)
get_property(folders GLOBAL PROPERTY PLIMSOLL_FOLDERS)
set(objects)
foreach(folder ${folders})
  list(APPEND objects $<TARGET_OBJECTS:${folder}>)
endforeach()

add_library(plimsoll ${objects})
add_library(plimsoll::plimsoll ALIAS plimsoll)
set_target_properties(plimsoll PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                          SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(plimsoll INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(plimsoll INTERFACE cxx_std_20)

# Public headers name no other library. A program that links the static library needs these by name. Their CMake packages
# are not asked for: oneDNN's would demand OpenCL too.
set(PLIMSOLL_STATIC_LIBRARIES dnnl hwy fmt jpeg png z pcre2-8 utf8proc gomp pthread)
target_link_libraries(plimsoll PRIVATE $<BUILD_INTERFACE:${folders}>)
include(cmake/package.cmake)

if(TARGET plimsoll_cli)
  configure_file(cmake/plimsoll.1.in plimsoll.1 @ONLY)
  install(TARGETS plimsoll_cli COMPONENT program)
  install(FILES ${PROJECT_BINARY_DIR}/plimsoll.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
endif()
if(TARGET plimsoll_mpi)
  install(TARGETS plimsoll_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ranks)
endif()
if(BUILD_SHARED_LIBS AND TARGET plimsoll_cli)
  include(cmake/debian.cmake)
endif()
