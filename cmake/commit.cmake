# The commit, asked of git by each build; the file changes and is compiled only if the commit does. RIDGE_COMMIT is for
# builds without a checkout.
set(RIDGE_COMMIT "" CACHE STRING "Commit to name in reports, where git cannot say")
set(commit_file ${PROJECT_BINARY_DIR}/generated/engine/commit.cpp)
add_custom_target(ridge_commit
  COMMAND ${CMAKE_COMMAND} -DFILE=${commit_file} -DCOMMIT=${RIDGE_COMMIT} -DSOURCE=${PROJECT_SOURCE_DIR}
          -P ${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake
  BYPRODUCTS ${commit_file} COMMENT "" VERBATIM)
target_sources(ridge_engine PRIVATE ${commit_file})
set_source_files_properties(${commit_file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_dependencies(ridge_engine ridge_commit)
