# Contents of `cmake --install` and the packages: the executable, the manual page and completions that it writes, and
# licences; with RIDGE_PORTABLE also those of its libraries.
include(GNUInstallDirs)
install(TARGETS ridge RUNTIME)

set(made ${PROJECT_BINARY_DIR}/package)
install(CODE "set(ridge ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:ridge>\")
set(made \"${made}\")")
install(CODE [[
file(MAKE_DIRECTORY ${made})
function(write_from file)
  execute_process(COMMAND ${ridge} ${ARGN} OUTPUT_FILE ${made}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
write_from(ridge.1 manual)
write_from(ridge completion bash)
write_from(_ridge completion zsh)
write_from(ridge.fish completion fish)
execute_process(COMMAND gzip -9nf ${made}/ridge.1 COMMAND_ERROR_IS_FATAL ANY)
]])
install(FILES ${made}/ridge.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${made}/ridge DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${made}/_ridge DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${made}/ridge.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

if(RIDGE_PORTABLE)
  install(CODE "execute_process(COMMAND ${PROJECT_SOURCE_DIR}/packaging/licences.sh ${RIDGE_PORTABLE} ${PROJECT_VERSION} ${made}
                                        ${CUDAToolkit_VERSION} COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${made}/ridge.spdx.json ${made}/libraries.txt DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME ridge)
set(CPACK_PACKAGE_CONTACT "The ridge authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run local GGUF language models, and measure them against the memory roofline")
set(processor ${CMAKE_SYSTEM_PROCESSOR})
if(processor STREQUAL "aarch64")
  set(processor arm64)
endif()
set(CPACK_PACKAGE_FILE_NAME ridge-${PROJECT_VERSION}-linux-${processor})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
if(CMAKE_CROSSCOMPILING) # dpkg-shlibdeps knows this machine's libraries only
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${processor})
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.35)") # packaging/check.sh
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4 | libcurl4t64 | libcurl3-gnutls") # ridge pull
# ridge gui; FLAC, MP3 and Ogg
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libx11-6, libxcursor1, libxi6, libxrandr2, libgl1, libgl1-mesa-dri, libsndfile1, libpulse0")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
include(CPack)
