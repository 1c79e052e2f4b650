# Run by the target ridge_commit: writes FILE with the commit of SOURCE, or COMMIT where that is given.
if(NOT COMMIT)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
file(CONFIGURE OUTPUT ${FILE} @ONLY CONTENT [[
#include "app/machine.h"
namespace ridge::app {
const char* const kCommit = "@COMMIT@";
}
]])
