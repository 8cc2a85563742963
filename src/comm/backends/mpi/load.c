// Finding the plug-in: SHOAL_MPI_PLUGIN names it; else it lies beside libshoal (or the program that
// contains it), or where the system's loader looks. It stays loaded: MPI cannot be started twice.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/backends/mpi/mpi.h"

// Folders to look in, from the one of the file this code is in: build tree, its tests, installed.
static const char *const folders[] = {"", "/..", "/../lib", "/../lib64"};

// The folder of libshoal.so or of the program; "" when it cannot be told.
static void own_folder(char buffer[PATH_MAX]) {
  Dl_info info;
  buffer[0] = 0;
  // A program's file name is what it was called by, which need not be a path.
  const bool known = dladdr((const void *)&shoal_comm_mpi, &info) && strchr(info.dli_fname, '/');
  if (!realpath(known ? info.dli_fname : "/proc/self/exe", buffer)) return;
  char *slash = strrchr(buffer, '/');
  if (slash) *slash = 0;
}

// The plug-in's file among those folders; false: it is in none of them.
static bool find_beside(const char *name, char *path, size_t capacity) {
  char folder[PATH_MAX];
  own_folder(folder);
  for (size_t i = 0; folder[0] && i < sizeof folders / sizeof *folders; ++i) {
    snprintf(path, capacity, "%s%s/%s", folder, folders[i], name);
    if (access(path, R_OK) == 0) return true;
  }
  return false;
}

bool shoal_mpi_has_plugin(const char *family) {
  char name[64], path[PATH_MAX + 64];
  snprintf(name, sizeof name, "libshoal_mpi_%s.so", family);
  return find_beside(name, path, sizeof path);
}

static void *open_beside(const char *name) {
  char path[PATH_MAX + 64];
  return dlopen(find_beside(name, path, sizeof path) ? path : name, RTLD_NOW | RTLD_LOCAL);
}

shoal_status_t shoal_mpi_load(const shoal_mpi_launch_t *launch,
                              const shoal_mpi_plugin_t **out_plugin) {
  char name[64];
  snprintf(name, sizeof name, "libshoal_mpi_%s.so", launch->family);
  const char *given = getenv("SHOAL_MPI_PLUGIN");
  void *library = given && given[0] ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : open_beside(name);
  if (!library) {
    const char *why = dlerror();
    return SHOAL_ERROR_HINT(
        UNAVAILABLE,
        "build Shoal where this MPI's mpicc is installed (tools/bootstrap --optional), name the "
        "plug-in in SHOAL_MPI_PLUGIN, or use `shoal run -n N` on one machine",
        "%s started this process as rank %d of %d, but its plug-in cannot be loaded: %s",
        launch->launcher, launch->rank, launch->size, why ? why : name);
  }
  shoal_mpi_plugin_fn_t function;
  *(void **)&function = dlsym(library, SHOAL_MPI_PLUGIN_SYMBOL);
  const shoal_mpi_plugin_t *plugin = function ? function() : NULL;
  if (!plugin || plugin->version != SHOAL_MPI_PLUGIN_VERSION) {
    return SHOAL_ERROR_HINT(UNAVAILABLE, "build and install both together",
                            "%s is not a plug-in of this version of Shoal",
                            given && given[0] ? given : name);
  }
  *out_plugin = plugin;
  return NULL;
}
