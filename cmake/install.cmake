# One library of all folders, static or shared (BUILD_SHARED_LIBS), with the public headers alone.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
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

# Public headers name no other library. Who links the static library needs these by name; a package that describes them
# (and asks for more, as oneDNN's asks for OpenCL) need not be found.
set(PLIMSOLL_STATIC_LIBRARIES dnnl hwy fmt jpeg png z gomp pthread)
target_link_libraries(plimsoll PRIVATE $<BUILD_INTERFACE:${folders}>)
if(NOT BUILD_SHARED_LIBS)
  target_link_libraries(plimsoll INTERFACE "$<INSTALL_INTERFACE:${PLIMSOLL_STATIC_LIBRARIES}>")
endif()

install(TARGETS plimsoll EXPORT plimsollTargets)
if(TARGET plimsoll_cli)
  install(TARGETS plimsoll_cli)
endif()
if(TARGET plimsoll_mpi)
  install(TARGETS plimsoll_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/plimsoll ${PROJECT_BINARY_DIR}/include/plimsoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(EXPORT plimsollTargets NAMESPACE plimsoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
configure_package_config_file(cmake/plimsollConfig.cmake.in plimsollConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
write_basic_package_version_file(plimsollConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plimsollConfig.cmake ${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)

# pkg-config --cflags --libs plimsoll (with --static for the static library).
list(JOIN PLIMSOLL_STATIC_LIBRARIES " -l" PLIMSOLL_PC_LIBRARIES)
if(BUILD_SHARED_LIBS)
  set(PLIMSOLL_PC_LIBS "Libs.private: -l${PLIMSOLL_PC_LIBRARIES}")
  set(PLIMSOLL_PC_MORE "")
else()
  set(PLIMSOLL_PC_LIBS "")
  set(PLIMSOLL_PC_MORE " -l${PLIMSOLL_PC_LIBRARIES}")
endif()
file(RELATIVE_PATH PLIMSOLL_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/plimsoll.pc.in plimsoll.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/plimsoll.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
