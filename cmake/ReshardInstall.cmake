# What `cmake --install` and CPack deliver: the SDK, the runtime as one static library, programs, strategies, documents.
include(CMakePackageConfigHelpers)

set(RESHARD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/reshard)

install(DIRECTORY core/include/reshard sdk/include/reshard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS reshard_sdk_c reshard_sdk EXPORT reshardSdkTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS reshard_runtime EXPORT reshardRuntimeTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS reshard RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET reshard_probe)
  install(TARGETS reshard_probe RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/reshard)
endif()
if(TARGET gpt)
  install(PROGRAMS $<TARGET_FILE:gpt> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME reshard-gpt)
  install(FILES examples/gpt/job.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/reshard/gpt)
endif()

foreach(set Sdk Runtime)
  install(EXPORT reshard${set}Targets NAMESPACE reshard:: DESTINATION ${RESHARD_CMAKE_DIR})
endforeach()
configure_package_config_file(cmake/reshardConfig.cmake.in ${PROJECT_BINARY_DIR}/reshardConfig.cmake
  INSTALL_DESTINATION ${RESHARD_CMAKE_DIR} PATH_VARS RESHARD_STRATEGIES_DIR RESHARD_MODULES_DIR CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBEXECDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/reshardConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reshardConfig.cmake ${PROJECT_BINARY_DIR}/reshardConfigVersion.cmake
  cmake/ReshardStrategy.cmake cmake/ReshardRuntime.cmake cmake/strategy.exports DESTINATION ${RESHARD_CMAKE_DIR})

file(RELATIVE_PATH RESHARD_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" RESHARD_PC_PREFIX ${RESHARD_PC_PREFIX})
configure_file(cmake/reshard-sdk.pc.in ${PROJECT_BINARY_DIR}/reshard-sdk.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/reshard-sdk.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES sdk/README.md sdk/REFERENCE.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/sdk)
install(DIRECTORY plugins DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN README.md)

set(CPACK_PACKAGE_NAME reshard)
set(CPACK_PACKAGE_VENDOR "The Reshard maintainers")
set(CPACK_PACKAGE_CONTACT "The Reshard maintainers <reshard@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# What programs load; who builds on the runtime also needs what libreshard.a refers to.
find_program(RESHARD_SHLIBDEPS dpkg-shlibdeps)
if(RESHARD_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libstdc++6, libgcc-s1, libfmt9, libssl3, libtomlplusplus3, libopenblas0-pthread")
  if(RESHARD_ONEDNN)
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libdnnl2")
  endif()
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, make, pkg-config, libfmt-dev, libssl-dev, libtomlplusplus-dev")
include(CPack)
