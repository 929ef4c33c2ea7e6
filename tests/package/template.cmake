# `reshard plugins new` and the commands of the README that it writes, from the installed package and outside of this tree:
# made, built, checked at level strict, described, explained, trained with, tested. LANG: c++ or c.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

set(extension cpp)
if(LANG STREQUAL "c")
  set(extension c)
endif()
set(folder ${WORK}/acme_mine)
set(file ${WORK}/build/acme_mine.so)
file(REMOVE_RECURSE ${WORK})
run(SHOWS "acme_mine/acme_mine.${extension}" COMMAND ${PREFIX}/bin/reshard plugins new acme_mine --lang ${LANG})

# What is refused: a second time, other names.
set(new ${PREFIX}/bin/reshard plugins new)
run(FAILS SHOWS "reshard plugins new: acme_mine is here already, and is no empty folder (choose another name, or another"
  COMMAND ${new} acme_mine)
run(FAILS SHOWS "\"zero3\" is the name of an installed strategy (begin it with who makes it, as in acme_zero3)"
  COMMAND ${new} zero3)
foreach(name Acme 1acme acme-mine ../acme)
  run(FAILS SHOWS "\"${name}\" is no name for a strategy (names match [a-z][a-z0-9_]*, have at most 63 characters, and begin with"
    COMMAND ${new} ${name})
endforeach()
file(MAKE_DIRECTORY ${WORK}/acme_empty)
run(SHOWS "acme_empty/README.md" COMMAND ${new} acme_empty)
file(GLOB_RECURSE made ${WORK}/acme_*/* ${WORK}/acme_*/.*)
foreach(one ${made})
  file(READ ${one} text)
  if(text MATCHES "{{|}}[^;,]")
    message(FATAL_ERROR "${one} still holds ${CMAKE_MATCH_0}")
  endif()
endforeach()

# The commands of the README, as they stand there, with this compiler and at the strictest warnings.
set(ENV{CC} ${CC})
set(ENV{CXX} ${CXX})
set(ENV{CFLAGS} "-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror")
set(ENV{CXXFLAGS} "-std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror")
set(ENV{CMAKE_PREFIX_PATH} ${PREFIX})
set(ENV{PATH} ${PREFIX}/bin:$ENV{PATH})
file(READ ${folder}/README.md readme)
if(NOT readme MATCHES "```sh\n(reshard plugins new acme_mine[^\n]*)\n(cmake -S [^\n]+)\n(cmake --build [^\n]+)\n(reshard plugins check [^\n]+)\n(reshard-gpt train [^\n]+)\n```")
  message(FATAL_ERROR "the README has no block of five commands")
endif()
set(commands "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" "${CMAKE_MATCH_3}" "${CMAKE_MATCH_4}" "${CMAKE_MATCH_5}")
if(LANG STREQUAL "c++")
  file(READ ${SOURCE}/sdk/README.md sdk)
  string(REGEX REPLACE " +# --lang c for C11" "" sdk "${sdk}")
  list(JOIN commands "\n" block)
  string(FIND "${sdk}" "```sh\n${block}\n```" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "sdk/README.md has other commands than the template's README")
  endif()
endif()
list(GET commands 0 line)
run(IN ${WORK}/again COMMAND sh -c "${line}")
run(COMMAND diff -r ${folder} ${WORK}/again/acme_mine)
list(GET commands 1 line)
run(COMMAND sh -c "${line}")
list(GET commands 2 line)
run(COMMAND sh -c "${line}")
list(GET commands 3 line)
run(SHOWS "plan.usual passed" COMMAND sh -c "${line}")
run(SHOWS "fuzz.options passed" COMMAND sh -c "${line} --level strict")
list(JOIN TINY " " tiny)
list(GET commands 4 line)
run(SHOWS "strategy acme_mine 0.1.0" "2 steps in" COMMAND sh -c "${line} ${tiny}")
expect_strategy(${file} acme_mine)

# What the template shows: options, decisions by unit, reasons, a line in the log.
run(SHOWS "keep_below bytes" "ahead integer" "vendor acme" COMMAND reshard plugins describe ${file})
set(explain reshard-gpt explain --strategy ${file})
run(SHOWS "plugin acme_mine: smaller than keep_below: kept, no second gather root: after_forward = keep"
          "plugin acme_mine: at least keep_below: freed, and gathered again for its backward h.0 … h.3: after_forward = free"
  COMMAND ${explain})
run(SHOWS "warning: keeps nothing: no unit is smaller than keep_below = 0"
  COMMAND ${explain} --set strategy.options.acme_mine.keep_below=0)
run(FAILS SHOWS "strategy.options.acme_mine.ahead is 9, outside 0 … 8" COMMAND ${explain} --set strategy.options.acme_mine.ahead=9)

string(REPLACE "--steps 2" "--steps 20" more "${tiny}")
# How much of a step waits is the machine's business; of one so small it is more than the template asks for.
run(SHOWS "acme_mine decided anew: " "after_forward = keep: smaller than keep_below"
  COMMAND sh -c "reshard-gpt train --strategy ${file} ${more} --set strategy.options.acme_mine.grow=16 --set strategy.options.acme_mine.keep_below=4096")

# Its own CI: .ci/run in a clean clone.
run(IN ${folder} SHOWS "acme_mine.quick" "acme_mine.full" "acme_mine.plan" "100% tests passed" COMMAND ${folder}/.ci/run)
