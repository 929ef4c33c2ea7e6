# A strategy in C or C++ from the installed package, which asks for no other library; built, installed, loaded, trained with.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

set(name acme_small_kept)
set(source ${SOURCE}/examples/own_strategy/acme_small_kept.cpp)
if(LANGUAGE STREQUAL "C")
  set(name c_keep)
  set(source ${SOURCE}/tests/sdk/c_keep.c)
endif()
file(REMOVE_RECURSE ${WORK})
file(COPY ${source} DESTINATION ${WORK})
get_filename_component(source ${source} NAME)
add_symbols(${WORK}/${source})
configure(${CMAKE_CURRENT_LIST_DIR}/strategy -DLANGUAGE=${LANGUAGE} -DNAME=${name} -DFILE=${WORK}/${source} -DVERSION=${VERSION}
  -DCMAKE_${LANGUAGE}_STANDARD=${STANDARD} -DCMAKE_${LANGUAGE}_EXTENSIONS=OFF
  "-DCMAKE_${LANGUAGE}_FLAGS=-Wall -Wextra -Wpedantic -Werror"
  -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -DCMAKE_DISABLE_FIND_PACKAGE_Threads=ON)
run(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build)
run(COMMAND ${CMAKE_COMMAND} --install ${WORK}/build --prefix ${WORK}/out)
set(file ${WORK}/out/lib/reshard/strategies/abi1/${name}.so)
run(COMMAND ${CMAKE_COMMAND} -E compare_files ${WORK}/build/${name}.so ${file})
expect_strategy(${file} ${name})

# What a host would have to provide is refused by the linker.
run(COMMAND ${CMAKE_COMMAND} -DCMAKE_${LANGUAGE}_FLAGS=-DACME_MISSING ${WORK}/build)
run(FAILS SHOWS "acme_missing" COMMAND ${CMAKE_COMMAND} --build ${WORK}/build)
