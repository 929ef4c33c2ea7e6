# The .deb: made by CPack, unpacked into a folder as nobody's root, and run from there.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
run(COMMAND cpack -G DEB --config ${BUILD}/CPackConfig.cmake -B ${WORK}/out)
file(GLOB deb ${WORK}/out/reshard_*.deb)
run(SHOWS "Package: reshard" "Version: ${VERSION}" "libc6 (>= " "libstdc++6 (>= " "libfmt9 (>= " "libtomlplusplus3 (>= " "openblas"
  "Suggests: g++, " COMMAND dpkg-deb --info ${deb})
run(COMMAND dpkg-deb -x ${deb} ${WORK}/root)

set(usr ${WORK}/root/usr)
run(SHOWS "${usr}/${LIBDIR}/reshard/strategies/abi1/zero3.so" IN ${WORK}/root COMMAND ${usr}/bin/reshard plugins list --json -)
run(SHOWS "2 steps in" COMMAND ${usr}/bin/reshard-gpt train ${TINY})
