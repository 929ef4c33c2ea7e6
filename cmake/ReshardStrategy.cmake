# reshard_add_strategy(acme_mine SOURCES acme_mine.cpp [VENDOR "Acme"] [FOLDER dir]): one strategy = one plugin.
#
# Makes the MODULE acme_mine.so in FOLDER (the current build folder). NAME is the file's stem, which must be the name in the
# source's RESHARD_STRATEGY. C and C++ sources. The plugin exports its entry alone and imports nothing from its host.
# `cmake --install` puts it where programs of the same prefix look; ctest gets two tests, acme_mine.quick and acme_mine.full
# (label reshard), which run `reshard plugins check`, where that program is found. A project that wants neither, or them
# elsewhere, sets before the call
#   RESHARD_STRATEGY_FOLDER       where .so files are built, without FOLDER
#   RESHARD_STRATEGY_DESTINATION  where they are installed; "" = nowhere
#   RESHARD_STRATEGY_CHECK        the program that checks them, as in add_test's COMMAND; "" = no tests
include_guard(GLOBAL)

# Start-up code that fast-math links in changes how the whole process computes.
function(_reshard_refuse_fast_math name)
  get_directory_property(flags COMPILE_OPTIONS)
  get_directory_property(link LINK_OPTIONS)
  list(APPEND flags ${link})
  foreach(config "" ${CMAKE_BUILD_TYPE} ${CMAKE_CONFIGURATION_TYPES})
    string(TOUPPER "${config}" config)
    string(REGEX REPLACE "(.+)" "_\\1" config "${config}")
    foreach(kind C_FLAGS CXX_FLAGS SHARED_LINKER_FLAGS MODULE_LINKER_FLAGS)
      string(APPEND flags " ${CMAKE_${kind}${config}}")
    endforeach()
  endforeach()
  if(flags MATCHES "-ffast-math|-Ofast|-funsafe-math-optimizations")
    message(FATAL_ERROR "reshard_add_strategy(${name}): strategies are not built with ${CMAKE_MATCH_0}")
  endif()
endfunction()

function(reshard_add_strategy name)
  cmake_parse_arguments(arg "" "VENDOR;FOLDER" "SOURCES" ${ARGN})
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "reshard_add_strategy: \"${name}\" is no name for a strategy; names match [a-z][a-z0-9_]*")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "reshard_add_strategy(${name}): does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "reshard_add_strategy(${name}): SOURCES is missing")
  endif()
  _reshard_refuse_fast_math(${name})
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${CMAKE_CURRENT_BINARY_DIR})
    if(DEFINED RESHARD_STRATEGY_FOLDER)
      set(arg_FOLDER ${RESHARD_STRATEGY_FOLDER})
    endif()
  endif()

  # A strategy in C needs no C++ compiler.
  set(sdk reshard::sdk)
  set(others ${arg_SOURCES})
  list(FILTER others EXCLUDE REGEX "[.][ch]$")
  if(NOT others)
    set(sdk reshard::sdk_c)
  endif()

  set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/strategy.exports)
  add_library(${name} MODULE ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY ${arg_FOLDER} LINK_DEPENDS ${exports}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  target_link_libraries(${name} PRIVATE ${sdk})
  target_link_options(${name} PRIVATE
    -Wl,--version-script=${exports}
    -Wl,-z,defs,-z,now,-z,relro,-z,noexecstack,--exclude-libs,ALL,--build-id=sha1,--as-needed)
  if(DEFINED arg_VENDOR)
    target_compile_definitions(${name} PRIVATE RESHARD_VENDOR="${arg_VENDOR}")
  endif()
  if(PROJECT_NAME STREQUAL "reshard")  # inside Reshard's own build
    target_link_libraries(${name} PRIVATE reshard_warnings)
  endif()
  # A plugin depends on the C and C++ runtime alone, so a sanitizer's runtime is not for it: the host brings its own.
  if(RESHARD_SANITIZE)
    target_compile_options(${name} PRIVATE -fno-sanitize=all)
    target_link_options(${name} PRIVATE -fno-sanitize=all)
  endif()

  _reshard_install_strategy(${name})
  _reshard_check_strategy(${name})
endfunction()

function(_reshard_install_strategy name)
  if(NOT DEFINED RESHARD_STRATEGY_DESTINATION)
    include(GNUInstallDirs)
    set(RESHARD_STRATEGY_DESTINATION ${CMAKE_INSTALL_LIBDIR}/reshard/strategies/abi1)
  endif()
  if(RESHARD_STRATEGY_DESTINATION)
    install(TARGETS ${name} LIBRARY DESTINATION ${RESHARD_STRATEGY_DESTINATION})
  endif()
endfunction()

function(_reshard_check_strategy name)
  if(RESHARD_STRATEGY_CHECK)
    foreach(level quick full)
      add_test(NAME ${name}.${level}
        COMMAND ${RESHARD_STRATEGY_CHECK} plugins check --level ${level} $<TARGET_FILE:${name}>)
      set_tests_properties(${name}.${level} PROPERTIES LABELS reshard)
    endforeach()
  endif()
endfunction()
