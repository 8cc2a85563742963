// Groups from meshes: along axes, by key, by host; and who is next to whom. Which ranks a group has
// follows from the mesh alone, so making one along axes needs no message.
#include "comm/mesh_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/comm_impl.h"
#include "shoal/options.h"

// ---- axes -----------------------------------------------------------------------------

static shoal_status_t unknown_axis(const shoal_mesh_t *mesh, const char *name) {
  const char *names[SHOAL_MAX_AXES];
  for (int32_t i = 0; i < mesh->axis_count; ++i) names[i] = mesh->axes[i].name;
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(NOT_FOUND,
                          shoal_did_you_mean(name, names, mesh->axis_count,
                                             "name axes of the mesh, with commas between", &hint),
                          "the mesh has no axis '%s'", name);
}

static shoal_status_t add_axis(const shoal_mesh_t *mesh, const char *name, int32_t *count,
                               int32_t axes[SHOAL_MAX_AXES]) {
  int32_t axis = shoal_mesh_axis(mesh, name);
  if (axis < 0) return unknown_axis(mesh, name);
  for (int32_t i = 0; i < *count; ++i) {
    if (axes[i] == axis) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name each axis once", "axis '%s' is there twice",
                              name);
    }
  }
  axes[(*count)++] = axis;
  return NULL;
}

shoal_status_t shoal_mesh_axes(const shoal_mesh_t *mesh, const char *text, int32_t *out_count,
                               int32_t out_axes[SHOAL_MAX_AXES]) {
  *out_count = 0;
  const bool model = strcmp(text, "model") == 0, all = strcmp(text, "all") == 0;
  if ((model || all) && shoal_mesh_axis(mesh, text) < 0) {
    for (int32_t i = 0; i < mesh->axis_count; ++i) {
      if (all || strcmp(mesh->axes[i].name, "data") != 0) out_axes[(*out_count)++] = i;
    }
    return NULL;
  }
  while (*text) {
    char name[SHOAL_NAME_SIZE];
    text += strspn(text, " ");
    const size_t length = strcspn(text, ", "), kept = length < sizeof name ? length : 0;
    memcpy(name, text, kept);
    name[kept] = 0;
    SHOAL_RETURN_IF_ERROR(add_axis(mesh, name, out_count, out_axes));
    text += length + strspn(text + length, " ");
    if (*text == ',' && text[1]) {
      ++text;
    } else if (*text) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write names with commas between: 'data,tensor'",
                              "expected an axis at '%s'", text);
    }
  }
  return NULL;
}

// ---- neighbours -----------------------------------------------------------------------

typedef enum place { NEXT, PREV, FIRST, LAST } place_t;

static int32_t along(const shoal_mesh_t *mesh, const char *name, int32_t rank, place_t place) {
  const int32_t axis = shoal_mesh_axis(mesh, name);
  const int64_t position = shoal_mesh_position(mesh, rank);
  if (axis < 0 || position < 0) return -1;
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(mesh, position, coords);
  const int64_t at = coords[axis], size = mesh->axes[axis].size;
  const int64_t to[] = {[NEXT] = at + 1, [PREV] = at - 1, [FIRST] = 0, [LAST] = size - 1};
  coords[axis] = to[place];
  if (to[place] < 0 || to[place] >= size) return -1;
  return shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
}

int32_t shoal_mesh_next(const shoal_mesh_t *mesh, const char *axis, int32_t rank) {
  return along(mesh, axis, rank, NEXT);
}

int32_t shoal_mesh_prev(const shoal_mesh_t *mesh, const char *axis, int32_t rank) {
  return along(mesh, axis, rank, PREV);
}

int32_t shoal_mesh_first(const shoal_mesh_t *mesh, const char *axis, int32_t rank) {
  return along(mesh, axis, rank, FIRST);
}

int32_t shoal_mesh_last(const shoal_mesh_t *mesh, const char *axis, int32_t rank) {
  return along(mesh, axis, rank, LAST);
}

// ---- groups ---------------------------------------------------------------------------

shoal_status_t shoal_mesh_group_ranks(const shoal_mesh_t *mesh, const char *axes, int32_t rank,
                                      shoal_arena_t *arena, int64_t *out_count,
                                      const int32_t **out_ranks) {
  int32_t axis_count, axis[SHOAL_MAX_AXES];
  SHOAL_RETURN_IF_ERROR(shoal_mesh_axes(mesh, axes, &axis_count, axis));
  const int64_t position = shoal_mesh_position(mesh, rank);
  int64_t count = position >= 0, coords[SHOAL_MAX_AXES];
  for (int32_t i = 0; i < axis_count; ++i) count *= mesh->axes[axis[i]].size;
  int32_t *ranks = SHOAL_NEW(arena, int32_t, count);
  if (!ranks) return SHOAL_OOM();
  if (position >= 0) shoal_mesh_coords(mesh, position, coords);
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = k;
    for (int32_t i = axis_count - 1; i >= 0; --i) {
      coords[axis[i]] = rest % mesh->axes[axis[i]].size;
      rest /= mesh->axes[axis[i]].size;
    }
    ranks[k] = shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
  }
  *out_count = count;
  *out_ranks = ranks;
  return NULL;
}

// A group of no ranks: one of this rank alone that forgets its member, so that no other rank and no
// numbering of groups is touched.
static shoal_status_t inactive_group(shoal_world_t *world, shoal_group_t **out_group) {
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 1, &world->rank, out_group));
  (*out_group)->size = 0;
  (*out_group)->rank = -1;
  return NULL;
}

shoal_status_t shoal_group_along(shoal_world_t *world, const shoal_mesh_t *mesh, const char *axes,
                                 shoal_group_t **out_group) {
  SHOAL_RETURN_IF_ERROR(shoal_mesh_check(mesh, shoal_world_size(world), false));
  shoal_arena_t arena;
  shoal_arena_init(world->allocator, &arena);
  int64_t count;
  const int32_t *ranks;
  shoal_status_t status =
      shoal_mesh_group_ranks(mesh, axes, shoal_world_rank(world), &arena, &count, &ranks);
  if (!status) {
    status = count ? shoal_group_create(world, (int32_t)count, ranks, out_group)
                   : inactive_group(world, out_group);
  }
  shoal_arena_deinit(&arena);
  return status;
}

static shoal_status_t gather_keys(shoal_world_t *world, int64_t key, shoal_arena_t *arena,
                                  int64_t **out_keys) {
  const int32_t size = shoal_world_size(world);
  int64_t *keys = SHOAL_NEW(arena, int64_t, size), *counts = SHOAL_NEW(arena, int64_t, size);
  shoal_group_t *all = NULL;
  shoal_status_t status = keys && counts ? NULL : SHOAL_OOM();
  if (!status) status = shoal_group_create(world, size, NULL, &all);
  if (!status) {
    for (int32_t i = 0; i < size; ++i) counts[i] = 1;
    status = shoal_all_gather(all, SHOAL_I64, counts, &key, keys);
  } else {
    shoal_world_abort(world, status);  // the others are waiting for this rank's key
  }
  shoal_group_free(all);
  *out_keys = keys;
  return status;
}

shoal_status_t shoal_group_split(shoal_world_t *world, int64_t key, shoal_group_t **out_group) {
  shoal_arena_t arena;
  shoal_arena_init(world->allocator, &arena);
  int64_t *keys;
  shoal_status_t status = gather_keys(world, key, &arena, &keys);
  int32_t count = 0, *ranks = NULL;
  if (!status && !(ranks = SHOAL_NEW(&arena, int32_t, shoal_world_size(world)))) {
    status = SHOAL_OOM();
  }
  for (int32_t i = 0; !status && i < shoal_world_size(world); ++i) {
    if (keys[i] == key) ranks[count++] = i;
  }
  if (!status) status = shoal_group_create(world, count, ranks, out_group);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_group_node(shoal_world_t *world, shoal_group_t **out_group) {
  char host[256] = "";
  uint64_t hash = SHOAL_HASH_START;
  const char *node = getenv("SHOAL_NODE");
  if (node && node[0]) {
    hash = shoal_hash_string(hash, node);
  } else {
    gethostname(host, sizeof host - 1);
    hash = shoal_hash_string(hash, host);
    shoal_arena_t arena;
    shoal_arena_init(world->allocator, &arena);
    const char *boot;
    int64_t size;
    shoal_status_t status =
        shoal_file_read("/proc/sys/kernel/random/boot_id", &arena, &boot, &size);
    if (!status) hash = shoal_hash_bytes(hash, boot, (size_t)size);
    shoal_status_free(status);  // without it the host's name has to do
    shoal_arena_deinit(&arena);
  }
  return shoal_group_split(world, (int64_t)hash, out_group);
}

const int32_t *shoal_group_ranks(const shoal_group_t *group) {
  return group->ranks;
}
