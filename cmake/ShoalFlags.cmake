# Compiler flags, once, as the interface target shoal_flags.
# No contraction anywhere: the same bits on every machine need a*b+c to round twice (contract 2).
# The baseline architecture stays the compiler's default; fast kernels choose at run time.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
# Thin: the archives are for our own links alone, so they name the objects instead of copying them.
set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> qcT <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_FLAGS_RELEASE "-O3 -fno-math-errno")
set(CMAKE_C_FLAGS_DEBUG "-Og -g")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g -fno-omit-frame-pointer")

add_library(shoal_flags INTERFACE)
# how a compiler cache writes the source folder, so that builds of other folders can share
file(RELATIVE_PATH relative_source ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
if(NOT relative_source MATCHES "/$")
  string(APPEND relative_source "/")
endif()
target_compile_definitions(shoal_flags INTERFACE _GNU_SOURCE)
target_compile_options(
  shoal_flags
  INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
            -Werror=unused-result -Wno-missing-field-initializers -ffp-contract=off
            # messages and statuses name files from the repository's root, not from this machine's
            -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=${CMAKE_BINARY_DIR}/=
            -fmacro-prefix-map=${relative_source}=)
if(SHOAL_WERROR)
  target_compile_options(shoal_flags INTERFACE -Werror)
endif()
if(SHOAL_SANITIZE)
  target_compile_options(
    shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer
                          -fno-sanitize-recover=all)
  target_link_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE})
  if(SHOAL_FUZZ)
    # Coverage for libFuzzer; the entries themselves link with -fsanitize=fuzzer. clang also minds offset 0 of a
    # null pointer, which is what kernels of empty tensors compute.
    target_compile_options(shoal_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow)
  endif()
  string(TOUPPER ${SHOAL_SANITIZE} sanitizers)
  string(REPLACE "," ";" sanitizers ${sanitizers})
  foreach(sanitizer IN LISTS sanitizers)
    target_compile_definitions(shoal_flags INTERFACE SHOAL_SANITIZE_${sanitizer})
  endforeach()
endif()
