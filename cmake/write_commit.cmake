# Writes FILE with COMMIT, or else the commit of SOURCE if that is the top of a work tree: sources may be unpacked in
# another repository.
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
#include "engine/loading/machine.h"
namespace ridge::engine {
const char* const kCommit = "@COMMIT@";
}
]])
