# plimsoll::plimsoll is all folders at once, in the tree and for programs that say find_package(plimsoll).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY PLIMSOLL_LIBRARIES)

add_library(plimsoll INTERFACE)
add_library(plimsoll::plimsoll ALIAS plimsoll)
target_link_libraries(plimsoll INTERFACE ${libraries})
target_include_directories(plimsoll INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(plimsoll INTERFACE cxx_std_20)

install(TARGETS plimsoll ${libraries} EXPORT plimsollTargets)
if(TARGET plimsoll_cli)
  install(TARGETS plimsoll_cli)
endif()
install(DIRECTORY include/plimsoll/ src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plimsoll
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(EXPORT plimsollTargets NAMESPACE plimsoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)

# Whoever uses the libraries looks for all that was found so far, but for what the program alone needs.
get_property(PLIMSOLL_DEPENDENCIES GLOBAL PROPERTY PACKAGES_FOUND)
list(REMOVE_ITEM PLIMSOLL_DEPENDENCIES CLI11)
configure_package_config_file(cmake/plimsollConfig.cmake.in plimsollConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
write_basic_package_version_file(plimsollConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plimsollConfig.cmake ${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
