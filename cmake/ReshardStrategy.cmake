# reshard_add_strategy(acme_mine SOURCES acme_mine.cpp [VENDOR "Acme"] [FOLDER dir]): one strategy = one plugin.
#
# Makes the MODULE acme_mine.so in ${PROJECT_BINARY_DIR}/plugins (or FOLDER). NAME is the file's stem, which must be the
# name in the source's RESHARD_STRATEGY. The plugin exports its entry alone and imports nothing from its host.
include_guard()

set(RESHARD_STRATEGY_EXPORTS "{ global: reshard_plugin_v1; local: *; };\n")

function(reshard_add_strategy name)
  cmake_parse_arguments(arg "" "VENDOR;FOLDER" "SOURCES" ${ARGN})
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "reshard_add_strategy: \"${name}\" is no name for a strategy; names match [a-z][a-z0-9_]*")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "reshard_add_strategy(${name}): SOURCES is missing")
  endif()
  # Start-up code that fast-math links in changes how the whole process computes.
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  set(flags "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_C_FLAGS_${config}} ${CMAKE_CXX_FLAGS_${config}}")
  if(flags MATCHES "-ffast-math|-Ofast|-funsafe-math-optimizations")
    message(FATAL_ERROR "reshard_add_strategy(${name}): strategies are not built with ${CMAKE_MATCH_0}")
  endif()
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${PROJECT_BINARY_DIR}/plugins)
  endif()

  set(exports ${CMAKE_CURRENT_BINARY_DIR}/${name}.exports)
  file(CONFIGURE OUTPUT ${exports} CONTENT "${RESHARD_STRATEGY_EXPORTS}" @ONLY)

  add_library(${name} MODULE ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY ${arg_FOLDER} LINK_DEPENDS ${exports}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  target_link_libraries(${name} PRIVATE reshard::sdk)
  target_link_options(${name} PRIVATE
    -Wl,--version-script=${exports}
    -Wl,-z,defs,-z,now,-z,relro,-z,noexecstack,--exclude-libs,ALL,--build-id=sha1,--as-needed)
  if(DEFINED arg_VENDOR)
    target_compile_definitions(${name} PRIVATE RESHARD_VENDOR="${arg_VENDOR}")
  endif()
  if(TARGET reshard_warnings)  # inside Reshard's own build
    target_link_libraries(${name} PRIVATE reshard_warnings)
  endif()
  # A plugin depends on the C and C++ runtime alone, so a sanitizer's runtime is not for it: the host brings its own.
  if(RESHARD_SANITIZE)
    target_compile_options(${name} PRIVATE -fno-sanitize=all)
    target_link_options(${name} PRIVATE -fno-sanitize=all)
  endif()
endfunction()
