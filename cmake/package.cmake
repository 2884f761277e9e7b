# Installs the target plimsoll, its public headers, and what find_package and pkg-config need. PLIMSOLL_STATIC_LIBRARIES are
# the libraries that a program must link beside the static one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
if(NOT BUILD_SHARED_LIBS)
  target_link_libraries(plimsoll INTERFACE "$<INSTALL_INTERFACE:${PLIMSOLL_STATIC_LIBRARIES}>")
endif()

# Components: what a program needs to run (library), and to be built (dev).
install(TARGETS plimsoll EXPORT plimsollTargets LIBRARY COMPONENT library NAMELINK_COMPONENT dev ARCHIVE COMPONENT dev)
install(DIRECTORY include/plimsoll ${PROJECT_BINARY_DIR}/include/plimsoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(EXPORT plimsollTargets NAMESPACE plimsoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll COMPONENT dev)
configure_package_config_file(cmake/plimsollConfig.cmake.in plimsollConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
write_basic_package_version_file(plimsollConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plimsollConfig.cmake ${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll COMPONENT dev)

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
install(FILES ${PROJECT_BINARY_DIR}/plimsoll.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
