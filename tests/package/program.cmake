# A training program with its own main: from the installed package it finds the package's strategies by name, wherever the
# prefix lies; from the sources it builds the runtime alone.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

if(FROM STREQUAL "source")  # nobody waits for what is built here: the compiler's time is all that counts
  set(options -DCMAKE_BUILD_TYPE=Unoptimised -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16)
endif()
configure(${CMAKE_CURRENT_LIST_DIR}/program -DFROM=${FROM} -DSOURCE=${SOURCE} ${options})
run(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build)
if(FROM STREQUAL "package")
  set(strategy zero2)
else()
  set(strategy ${WORK}/build/acme_small_kept.so)
endif()
run(SHOWS "y = 3.000 x -1.000" COMMAND ${WORK}/build/acme_trainer ${strategy})
run(FAILS SHOWS "there is no strategy \"zero4\"" COMMAND ${WORK}/build/acme_trainer zero4)
