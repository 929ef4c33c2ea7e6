# For the scripts of this folder. Sets TINY, the options of a short run of the installed reshard-gpt.
cmake_minimum_required(VERSION 3.25)
set(ENV{RESHARD_PLUGIN_PATH} "")
set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
set(TINY --steps 2 --set model.layers=1 --set model.width=32 --set model.heads=2 --set model.sequence=16
         --set train.global_batch=4 --set train.evaluate_every=0 --data ${SOURCE}/README.md)

# run([FAILS] [IN folder] [SHOWS text]… COMMAND …): runs it, checks whether it succeeds and that its output holds every
# text, and leaves the output in OUTPUT.
function(run)
  cmake_parse_arguments(PARSE_ARGV 0 arg "FAILS" "IN" "SHOWS;COMMAND" )
  if(NOT arg_IN)
    set(arg_IN ${WORK})
  endif()
  file(MAKE_DIRECTORY ${arg_IN})
  execute_process(COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_IN}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  list(JOIN arg_COMMAND " " shown)
  message(STATUS "$ ${shown}\n${output}")
  if(arg_FAILS AND status EQUAL 0)
    message(FATAL_ERROR "it should have failed: ${shown}")
  elseif(NOT arg_FAILS AND NOT status EQUAL 0)
    message(FATAL_ERROR "it ended with ${status}: ${shown}")
  endif()
  string(REGEX REPLACE "[ \n]+" " " flat "${output}")
  foreach(text ${arg_SHOWS})
    string(FIND "${flat}" "${text}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "its output lacks \"${text}\"")
    endif()
  endforeach()
  set(OUTPUT "${output}" PARENT_SCOPE)
endfunction()

# configure(SOURCE_FOLDER -D…): into WORK/build, which is made anew, with the compilers CC and CXX.
macro(configure source)
  file(REMOVE_RECURSE ${WORK}/build)
  run(${CONFIGURE_ARGUMENTS} COMMAND ${CMAKE_COMMAND} -S ${source} -B ${WORK}/build -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_PREFIX_PATH=${PREFIX} ${ARGN})
endmacro()

# A strategy's file is what a host may load: it describes itself as NAME, exports one symbol, and a model is trained with it.
function(expect_strategy file name)
  run(COMMAND nm --dynamic --defined-only --format=just-symbols ${file})
  string(STRIP "${OUTPUT}" exported)
  if(NOT exported STREQUAL "reshard_plugin_v1")
    message(FATAL_ERROR "${file} exports ${exported}")
  endif()
  run(SHOWS "${name} 0.1.0" COMMAND ${PREFIX}/bin/reshard plugins describe ${file})
  run(SHOWS "strategy ${name} 0.1.0" "2 steps in" COMMAND ${PREFIX}/bin/reshard-gpt train --strategy ${file} ${TINY})
endfunction()

# add_symbols(FILE): a function that would be visible in the strategy's file, and where ACME_MISSING is defined a call of one
# that nobody has. C and C++.
function(add_symbols file)
  file(APPEND ${file} [[

#ifdef __cplusplus
extern "C" {
#endif
int acme_visible(void) __attribute__((visibility("default")));
int acme_missing(void);
int acme_visible(void) {
#ifdef ACME_MISSING
  return acme_missing();
#else
  return 1;
#endif
}
#ifdef __cplusplus
}
#endif
]])
endfunction()
