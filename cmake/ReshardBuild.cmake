# How everything in this repository is compiled: one place for the language level, the warnings and the output folders.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# ccache and mold are used where they are installed; neither changes what is built.
find_program(RESHARD_CCACHE ccache)
if(RESHARD_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${RESHARD_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RESHARD_CCACHE})
endif()
find_program(RESHARD_MOLD mold)
if(RESHARD_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(RESHARD_SANITIZE)
  add_compile_options(-fsanitize=${RESHARD_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${RESHARD_SANITIZE})
endif()

# Warnings are errors in our own code. Floating-point contraction is off: a fused multiply-add happens only where the
# source says so, hence the same bits from g++ and clang and on every instruction set that a kernel is written for.
add_library(reshard_warnings INTERFACE)
target_compile_options(reshard_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 reports std::string's own operator+ (GCC bug 105651)

# reshard_module(base SOURCES a.cpp … DEPENDS model … [LINK fmt::fmt …]): one folder of core/ = one static library.
# A folder links only what stands to its left in the include order; tests/style checks the includes themselves.
function(reshard_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(reshard_${name} STATIC ${arg_SOURCES})
  target_include_directories(reshard_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include>)
  list(TRANSFORM arg_DEPENDS PREPEND reshard_)
  target_link_libraries(reshard_${name} PUBLIC ${arg_DEPENDS} PRIVATE reshard_warnings ${arg_LINK})
endfunction()

# reshard_test(layout FOLDER model SOURCES layout_test.cpp DEPENDS model [LABELS quick]): one GoogleTest program.
# Without LABELS a test is `quick`; ctest -L quick runs all of those in at most three minutes.
function(reshard_test name)
  cmake_parse_arguments(arg "" "FOLDER;TIMEOUT" "SOURCES;DEPENDS;LINK;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS quick)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  set(target ${arg_FOLDER}_${name}_test)
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  list(TRANSFORM arg_DEPENDS PREPEND reshard_)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} ${arg_LINK} reshard_warnings GTest::gtest GTest::gtest_main fmt::fmt)
  target_compile_definitions(${target} PRIVATE
    RESHARD_SOURCE_DIR="${PROJECT_SOURCE_DIR}" RESHARD_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)  # a test compiles longer than it runs
  add_test(NAME ${arg_FOLDER}.${name} COMMAND ${target})
  set_tests_properties(${arg_FOLDER}.${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "XDG_STATE_HOME=${PROJECT_BINARY_DIR}/tests/state;${arg_ENVIRONMENT}")
endfunction()
