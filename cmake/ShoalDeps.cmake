# The system's libraries, as the interface target shoal_deps: jansson, libyaml, threads, m, dl; libpng and
# libjpeg where they are found.
# A bare machine gets them from a bundle (SHOAL_DEPS_DIR); nothing is ever copied into the tree.
find_package(Threads REQUIRED)
add_library(shoal_deps INTERFACE)
target_link_libraries(shoal_deps INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

# shoal_find(NAME header library): cache entries NAME_INCLUDE and NAME_LIBRARY.
function(shoal_find name header library)
  find_path(${name}_INCLUDE ${header} HINTS ${SHOAL_DEPS_DIR}/include)
  find_library(${name}_LIBRARY NAMES ${library} HINTS ${SHOAL_DEPS_DIR}/lib)
endfunction()

foreach(dep "JANSSON jansson.h jansson" "YAML yaml.h yaml")
  separate_arguments(dep)
  shoal_find(${dep})
  list(GET dep 0 name)
  list(GET dep 2 library)
  if(NOT ${name}_INCLUDE OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${library} is not installed: run tools/bootstrap, or unpack `make bundle` "
                        "and configure with -DSHOAL_DEPS_DIR=FOLDER")
  endif()
  target_include_directories(shoal_deps SYSTEM INTERFACE ${${name}_INCLUDE})
  target_link_libraries(shoal_deps INTERFACE ${${name}_LIBRARY})
endforeach()
shoal_find(CMOCKA cmocka.h cmocka)

# Optional: folders of images. Without one, opening a file of that kind says UNAVAILABLE.
foreach(dep "PNG png.h png" "JPEG jpeglib.h jpeg")
  separate_arguments(dep)
  shoal_find(${dep})
  list(GET dep 0 name)
  if(${name}_INCLUDE AND ${name}_LIBRARY)
    string(TOLOWER ${name} file)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/data/${file}.c PROPERTIES COMPILE_DEFINITIONS SHOAL_HAS_${name})
    target_include_directories(shoal_deps SYSTEM INTERFACE ${${name}_INCLUDE})
    target_link_libraries(shoal_deps INTERFACE ${${name}_LIBRARY})
  endif()
endforeach()
# An archive does not say what it needs, and a bundled library does not say where it is.
if(PNG_LIBRARY AND (PNG_LIBRARY MATCHES "\\.a$" OR SHOAL_DEPS_DIR))
  find_library(Z_LIBRARY NAMES z HINTS ${SHOAL_DEPS_DIR}/lib REQUIRED)
  target_link_libraries(shoal_deps INTERFACE ${Z_LIBRARY})
endif()
