# _reshard_tell_places(TARGET STRATEGIES PROBE MODULES): what programs that link TARGET take for the package's own.
#
# A program may lie anywhere, and an installed package may have been moved since it was built: who finds the package knows
# where its files are, and so every such program compiles two lines that say it.
include_guard(GLOBAL)

function(_reshard_tell_places target strategies probe modules)
  set(source ${CMAKE_BINARY_DIR}/CMakeFiles/reshard_package.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
// Written by find_package(reshard): where the package of this program has its strategies, the program that probes them, and
// its modules.
extern "C" {
extern const char reshard_package_strategies[] __attribute__((weak));
extern const char reshard_package_probe[] __attribute__((weak));
extern const char reshard_package_modules[] __attribute__((weak));
const char reshard_package_strategies[] = "@strategies@";
const char reshard_package_probe[] = "@probe@";
const char reshard_package_modules[] = "@modules@";
}
]])
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_SOURCES ${source})
endfunction()
