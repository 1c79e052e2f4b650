# ridge_cuda: the CUDA executor, one .cu file per row of quant/formats.def; a stub without nvcc.
# RIDGE_CUDA: AUTO (if nvcc is found), ON (required), OFF.
# RIDGE_CUDA_ARCHITECTURES: as CMAKE_CUDA_ARCHITECTURES; "native": this machine's GPU, or 90a if there is none. The
# preset `dist` names all.
set(RIDGE_CUDA AUTO CACHE STRING "Build the CUDA executor: AUTO, ON or OFF")
set(RIDGE_CUDA_ARCHITECTURES native CACHE STRING "CUDA architectures, or native")

set(cuda_dir ${PROJECT_SOURCE_DIR}/kernels/cuda)
set(have_cuda OFF)
if(NOT RIDGE_CUDA STREQUAL "OFF" AND NOT RIDGE_SANITIZE)
  find_program(RIDGE_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin)
  if(RIDGE_NVCC)
    set(have_cuda ON)
  elseif(RIDGE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RIDGE_CUDA is ON, but there is no nvcc; install the CUDA Toolkit 13 or set CUDACXX")
  endif()
endif()

# Host code, also tested without CUDA. Compiled equally in both builds, so that errors appear in both.
file(GLOB plan_sources CONFIGURE_DEPENDS ${cuda_dir}/plan/*.cpp ${cuda_dir}/products/*.cpp)
add_library(ridge_cuda_plan OBJECT ${plan_sources})
compile_together(ridge_cuda_plan 15)
target_link_libraries(ridge_cuda_plan PUBLIC ridge_quant)

if(NOT have_cuda)
  message(STATUS "ridge: no CUDA (no nvcc, RIDGE_CUDA=OFF or a sanitizer build): models run on the CPU")
  add_library(ridge_cuda STATIC ${cuda_dir}/without_cuda.cpp ${cuda_dir}/exchange/nccl_library.cpp
              ${cuda_dir}/runtime/timeline.cpp $<TARGET_OBJECTS:ridge_cuda_plan>)
  target_link_libraries(ridge_cuda PUBLIC ridge_quant)
  return()
endif()

if(RIDGE_CUDA_ARCHITECTURES STREQUAL "native")
  # nvcc's own "native" omits sm_90a's instructions.
  set(CMAKE_CUDA_ARCHITECTURES 90a)
  execute_process(COMMAND nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE capability
                  RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed EQUAL 0 AND capability MATCHES "^[0-9]+\\.[0-9]$")
    string(REPLACE "." "" CMAKE_CUDA_ARCHITECTURES ${capability})
    if(CMAKE_CUDA_ARCHITECTURES EQUAL 90)
      set(CMAKE_CUDA_ARCHITECTURES 90a)
    endif()
  endif()
else()
  set(CMAKE_CUDA_ARCHITECTURES ${RIDGE_CUDA_ARCHITECTURES})
endif()
set(CMAKE_CUDA_COMPILER ${RIDGE_NVCC})
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # unknown to CMake 3.25 for CUDA 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(CMAKE_FIND_LIBRARY_SUFFIXES .so .a) # the module looks for shared libraries
find_package(CUDAToolkit REQUIRED)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${suffixes})
message(STATUS "ridge: CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")

set(cuda_sources)
foreach(NAME ${RIDGE_FORMATS})
  string(TOLOWER ${NAME} FILE)
  set(generated ${PROJECT_BINARY_DIR}/generated/kernels/cuda/${FILE}.cu)
  configure_file(${cuda_dir}/formats/format.cu.in ${generated} @ONLY)
  list(APPEND cuda_sources ${generated})
endforeach()
file(GLOB sources CONFIGURE_DEPENDS ${cuda_dir}/*/*.cpp ${cuda_dir}/*/*.cu ${cuda_dir}/ops/rows/*.cu)
list(REMOVE_ITEM sources ${plan_sources})
add_library(ridge_cuda STATIC ${sources} ${cuda_sources} $<TARGET_OBJECTS:ridge_cuda_plan>)
target_include_directories(ridge_cuda PUBLIC ${PROJECT_SOURCE_DIR})
target_compile_options(ridge_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
if(CMAKE_CUDA_ARCHITECTURES MATCHES ";") # for seven chips: 0.9 MB per format instead of 5.0
  target_compile_options(ridge_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-compress-mode=size>)
endif()
# As -ffp-contract=off: the GPU encoder must produce the CPU's bytes.
set_source_files_properties(${cuda_dir}/encode/encode.cu PROPERTIES COMPILE_OPTIONS -fmad=false)
target_link_libraries(ridge_cuda PUBLIC ridge_quant PRIVATE CUDA::cudart_static)
