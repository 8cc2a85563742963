# The MPI plug-ins: src/comm/backends/mpi/plugin.c built once per MPI that is found, beside libshoal.
# libshoal itself knows no mpi.h and loads the plug-in of whoever launched it. A missing MPI is no error.
set(mpi_plugin ${CMAKE_SOURCE_DIR}/src/comm/backends/mpi/plugin.c)
foreach(family openmpi mpich)
  find_program(SHOAL_MPICC_${family} mpicc.${family})
  if(SHOAL_MPICC_${family})
    set(plugin ${CMAKE_BINARY_DIR}/libshoal_mpi_${family}.so)
    add_custom_command(
      OUTPUT ${plugin}
      COMMAND
        ${SHOAL_MPICC_${family}} -std=gnu17 -O2 -g -Wall -Wextra -fPIC -shared -fvisibility=hidden
        -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include -o ${plugin} ${mpi_plugin}
      DEPENDS ${mpi_plugin} ${CMAKE_SOURCE_DIR}/src/comm/backends/mpi/plugin.h
      COMMENT "Building the ${family} plug-in")
    add_custom_target(shoal_mpi_${family} ALL DEPENDS ${plugin})
    install(FILES ${plugin} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
