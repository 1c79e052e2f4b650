# Run by CTest: write_commit.cmake (WRITER) names the commit of a work tree's top and of nothing below it. FOLDER is ours.
function(expect source commit)
  execute_process(COMMAND ${CMAKE_COMMAND} -DFILE=${FOLDER}/commit.cpp -DSOURCE=${source} -P ${WRITER}
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${FOLDER}/commit.cpp text)
  if(NOT text MATCHES "kCommit = \"${commit}\"")
    message(FATAL_ERROR "${source}: expected ${commit} in:\n${text}")
  endif()
endfunction()

string(RANDOM LENGTH 12 run) # two suites of one build may run at once
set(FOLDER ${FOLDER}/${run})
file(MAKE_DIRECTORY ${FOLDER}/tree/unpacked)
file(WRITE ${FOLDER}/tree/unpacked/file "")
set(git git -C ${FOLDER}/tree -c user.name=nobody -c user.email=nobody@localhost -c commit.gpgsign=false)
foreach(words "init;-q" "add;." "commit;-qm;one")
  execute_process(COMMAND ${git} ${words} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
expect(${FOLDER}/tree "[0-9a-f]+")
expect(${FOLDER}/tree/unpacked unknown)
file(WRITE ${FOLDER}/tree/unpacked/file "changed")
expect(${FOLDER}/tree "[0-9a-f]+-dirty")
file(REMOVE_RECURSE ${FOLDER})
