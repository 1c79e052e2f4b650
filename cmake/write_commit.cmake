# Run by the target ridge_commit: writes FILE with the commit of SOURCE, or COMMIT where that is given. SOURCE may lie in
# a work tree that has nothing to do with it (unpacked into somebody's repository): only the top of one is ours.
if(NOT COMMIT)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --show-prefix
                  RESULT_VARIABLE no_tree OUTPUT_VARIABLE below_top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT AND NOT no_tree AND below_top STREQUAL "")
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
file(CONFIGURE OUTPUT ${FILE} @ONLY CONTENT [[
#include "engine/machine.h"
namespace ridge::engine {
const char* const kCommit = "@COMMIT@";
}
]])
