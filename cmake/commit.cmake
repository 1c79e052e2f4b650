# Which commit a build is of, asked of git at build time: `ridge_commit` runs each time, but the one small file that holds
# the answer changes, and is compiled, only when the answer does. RIDGE_COMMIT overrides it where there is no checkout.
set(RIDGE_COMMIT "" CACHE STRING "Commit to name in reports, where git cannot say")
set(commit_file ${PROJECT_BINARY_DIR}/generated/engine/commit.cpp)
add_custom_target(ridge_commit
  COMMAND ${CMAKE_COMMAND} -DFILE=${commit_file} -DCOMMIT=${RIDGE_COMMIT} -DSOURCE=${PROJECT_SOURCE_DIR}
          -P ${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake
  BYPRODUCTS ${commit_file} COMMENT "" VERBATIM)
target_sources(ridge_engine PRIVATE ${commit_file})
set_source_files_properties(${commit_file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_dependencies(ridge_engine ridge_commit)
