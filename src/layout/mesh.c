// Meshes: text form, positions and coordinates. A mesh is a value; its rank list lives in an arena.
// Invariants of a parsed mesh: axis names differ, sizes are at least 1, the number of ranks fits an
// int32_t, a rank list has one rank per position and no rank twice and is sorted in `order`.
#include <stdlib.h>

#include "base/text.h"
#include "layout/cursor.h"
#include "layout/layout_impl.h"

int64_t shoal_layout_axis_size(const shoal_mesh_t *mesh, int32_t axis) {
  int64_t size = axis == SHOAL_AXIS_MICRO ? mesh->micro : mesh->axes[axis].size;
  return size > 1 ? size : 1;
}

const char *shoal_layout_axis_name(const shoal_mesh_t *mesh, int32_t axis) {
  return axis == SHOAL_AXIS_MICRO ? "micro" : mesh->axes[axis].name;
}

int64_t shoal_mesh_size(const shoal_mesh_t *mesh) {
  int64_t size = 1;
  for (int32_t i = 0; i < mesh->axis_count; ++i) size *= mesh->axes[i].size;
  return size;
}

int32_t shoal_mesh_axis(const shoal_mesh_t *mesh, const char *name) {
  for (int32_t i = 0; i < mesh->axis_count; ++i) {
    if (strcmp(mesh->axes[i].name, name) == 0) return i;
  }
  return -1;
}

int32_t shoal_mesh_rank(const shoal_mesh_t *mesh, int64_t position) {
  return mesh->ranks ? mesh->ranks[position] : (int32_t)position;
}

// The first place of the order whose rank is `rank` or above.
static int64_t first_from(const shoal_mesh_t *mesh, int64_t size, int32_t rank) {
  int64_t low = 0, high = size;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (mesh->ranks[mesh->order[middle]] < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int64_t shoal_mesh_position(const shoal_mesh_t *mesh, int32_t rank) {
  int64_t size = shoal_mesh_size(mesh);
  if (!mesh->ranks) return rank >= 0 && rank < size ? rank : -1;
  int64_t guess = (int64_t)rank - mesh->ranks[0];  // right where the list is a range
  if (guess >= 0 && guess < size && mesh->ranks[guess] == rank) return guess;
  if (mesh->order) {
    int64_t at = first_from(mesh, size, rank);
    return at < size && mesh->ranks[mesh->order[at]] == rank ? mesh->order[at] : -1;
  }
  for (int64_t i = 0; i < size; ++i) {
    if (mesh->ranks[i] == rank) return i;
  }
  return -1;
}

static int compare_keys(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

shoal_status_t shoal_mesh_sort(shoal_mesh_t *mesh, shoal_arena_t *arena) {
  mesh->order = NULL;
  if (!mesh->ranks) return NULL;
  int64_t size = shoal_mesh_size(mesh);
  int32_t *order = SHOAL_NEW(arena, int32_t, size);
  uint64_t *keys = SHOAL_NEW(arena, uint64_t, size);  // a rank above its position
  if (!order || !keys) return SHOAL_OOM();
  bool sorted = true;
  for (int64_t i = 0; i < size; ++i) {
    keys[i] = (uint64_t)(uint32_t)mesh->ranks[i] << 32 | (uint64_t)i;
    sorted = sorted && (i == 0 || keys[i - 1] < keys[i]);
  }
  if (!sorted) qsort(keys, (size_t)size, sizeof *keys, compare_keys);
  for (int64_t i = 0; i < size; ++i) order[i] = (int32_t)(uint32_t)keys[i];
  mesh->order = order;
  return NULL;
}

shoal_status_t shoal_mesh_copy(const shoal_mesh_t *mesh, shoal_arena_t *arena,
                               shoal_mesh_t *out_mesh) {
  shoal_mesh_t copy = *mesh;
  size_t size = (size_t)shoal_mesh_size(mesh);
  if (mesh->ranks && !(copy.ranks = shoal_arena_copy(arena, mesh->ranks, size, sizeof(int32_t)))) {
    return SHOAL_OOM();
  }
  if (mesh->order && !(copy.order = shoal_arena_copy(arena, mesh->order, size, sizeof(int32_t)))) {
    return SHOAL_OOM();
  }
  *out_mesh = copy;
  return NULL;
}

bool shoal_mesh_is_consecutive(const shoal_mesh_t *mesh) {
  for (int64_t p = 1, size = mesh->ranks ? shoal_mesh_size(mesh) : 0; p < size; ++p) {
    if (mesh->ranks[p] != mesh->ranks[0] + p) return false;
  }
  return true;
}

// The lowest and highest rank; false: the list is not sorted.
static bool rank_range(const shoal_mesh_t *mesh, int64_t size, int64_t *out_low,
                       int64_t *out_high) {
  if (mesh->ranks && !mesh->order) return false;
  *out_low = mesh->ranks ? mesh->ranks[mesh->order[0]] : 0;
  *out_high = mesh->ranks ? mesh->ranks[mesh->order[size - 1]] : size - 1;
  return true;
}

bool shoal_mesh_overlap(const shoal_mesh_t *a, const shoal_mesh_t *b) {
  if (a == b || a->ranks == b->ranks) return true;
  int64_t a_size = shoal_mesh_size(a), b_size = shoal_mesh_size(b), low[2], high[2];
  if (rank_range(a, a_size, &low[0], &high[0]) && rank_range(b, b_size, &low[1], &high[1])) {
    if (high[0] < low[1] || high[1] < low[0]) return false;
    // An end of one lies within the other's range; that is a rank of it if it has no gaps.
    if (high[0] - low[0] == a_size - 1 || high[1] - low[1] == b_size - 1) {
      const shoal_mesh_t *dense = high[0] - low[0] == a_size - 1 ? a : b;
      const shoal_mesh_t *other = dense == a ? b : a;
      int which = dense == a ? 0 : 1;
      int64_t size = dense == a ? b_size : a_size;
      if (!other->ranks) return true;
      int64_t at = first_from(other, size, (int32_t)low[which]);
      return at < size && other->ranks[other->order[at]] <= high[which];
    }
  }
  if (b_size < a_size) {
    const shoal_mesh_t *smaller = b;
    b = a;
    a = smaller;
    a_size = b_size;
  }
  for (int64_t i = 0; i < a_size; ++i) {
    if (shoal_mesh_position(b, shoal_mesh_rank(a, i)) >= 0) return true;
  }
  return false;
}

void shoal_mesh_coords(const shoal_mesh_t *mesh, int64_t position,
                       int64_t out_coords[SHOAL_MAX_AXES]) {
  for (int32_t i = mesh->axis_count; i < SHOAL_MAX_AXES; ++i) out_coords[i] = 0;
  for (int32_t i = mesh->axis_count - 1; i >= 0; --i) {
    out_coords[i] = position % mesh->axes[i].size;
    position /= mesh->axes[i].size;
  }
}

int64_t shoal_mesh_at(const shoal_mesh_t *mesh, const int64_t coords[SHOAL_MAX_AXES]) {
  int64_t position = 0;
  for (int32_t i = 0; i < mesh->axis_count; ++i) {
    position = position * mesh->axes[i].size + coords[i];
  }
  return position;
}

bool shoal_mesh_equal(const shoal_mesh_t *a, const shoal_mesh_t *b) {
  if (a == b) return true;
  if (a->axis_count != b->axis_count) return false;
  if (shoal_layout_axis_size(a, SHOAL_AXIS_MICRO) != shoal_layout_axis_size(b, SHOAL_AXIS_MICRO)) {
    return false;
  }
  for (int32_t i = 0; i < a->axis_count; ++i) {
    if (a->axes[i].size != b->axes[i].size) return false;
    if (strcmp(a->axes[i].name, b->axes[i].name) != 0) return false;
  }
  if (a->ranks == b->ranks) return true;
  int64_t size = shoal_mesh_size(a);
  if (a->ranks && b->ranks) {
    return memcmp(a->ranks, b->ranks, (size_t)size * sizeof *a->ranks) == 0;
  }
  for (int64_t i = 0; i < size; ++i) {
    if (shoal_mesh_rank(a, i) != shoal_mesh_rank(b, i)) return false;
  }
  return true;
}

// ---- parse -----------------------------------------------------------------------------

static shoal_status_t parse_axis(const char *text, cursor_t *at, shoal_mesh_t *mesh) {
  char name[SHOAL_NAME_SIZE];
  int64_t size = 0;
  cursor_blanks(at);
  cursor_t start = *at;
  if (!cursor_name(at, name) || !cursor_accept(at, '=') || !cursor_int(at, &size)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write axis=size, as in 'data=4,tensor=2'",
                            "mesh '%s': expected axis=size at '%s'", text, start);
  }
  if (size < 1) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give it a size of at least 1, or leave the axis out",
                            "mesh '%s': axis '%s' has size 0", text, name);
  }
  bool micro = strcmp(name, "micro") == 0;
  if (micro ? mesh->micro != 0 : shoal_mesh_axis(mesh, name) >= 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "each axis is given once",
                            "mesh '%s': axis '%s' is there twice", text, name);
  }
  if (micro) {
    mesh->micro = size;
    return NULL;
  }
  if (mesh->axis_count == SHOAL_MAX_AXES) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "merge axes that are always used together",
                            "mesh '%s': more than %d axes", text, SHOAL_MAX_AXES);
  }
  if (size > INT32_MAX / shoal_mesh_size(mesh)) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "use smaller axes", "mesh '%s': more than %d ranks", text,
                            INT32_MAX);
  }
  shoal_axis_t *axis = &mesh->axes[mesh->axis_count++];
  memcpy(axis->name, name, sizeof name);
  axis->size = size;
  return NULL;
}

static shoal_status_t parse_ranks(const char *text, cursor_t *at, shoal_arena_t *arena,
                                  shoal_mesh_t *mesh) {
  int64_t size = shoal_mesh_size(mesh), count = 0;
  int32_t *ranks = SHOAL_NEW(arena, int32_t, size);
  if (!ranks) return SHOAL_OOM();
  do {
    int64_t first = 0, last = 0;
    if (!cursor_int(at, &first) ||
        (last = first, cursor_accept(at, '-') && !cursor_int(at, &last))) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write ranks as in '@0,2-4'",
                              "mesh '%s': expected a rank at '%s'", text, *at);
    }
    if (last < first || last > INT32_MAX) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write the smaller rank first",
                              "mesh '%s': ranks %lld-%lld are no range", text, (long long)first,
                              (long long)last);
    }
    int64_t run = last - first + 1;
    for (int64_t i = 0; i < run && count + i < size; ++i) ranks[count + i] = (int32_t)(first + i);
    count += run;
  } while (cursor_accept(at, ','));
  if (count != size) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "list one rank per position of the mesh",
                            "mesh '%s': %lld ranks are listed, the axes make %lld", text,
                            (long long)count, (long long)size);
  }
  mesh->ranks = ranks;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_sort(mesh, arena));
  for (int64_t i = 1; i < size; ++i) {
    int32_t rank = ranks[mesh->order[i]];
    if (rank == ranks[mesh->order[i - 1]]) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a rank has one position on a mesh",
                              "mesh '%s': rank %d is listed twice", text, rank);
    }
  }
  return NULL;
}

shoal_status_t shoal_mesh_parse(const char *text, shoal_arena_t *arena, shoal_mesh_t *out_mesh) {
  shoal_mesh_t mesh = {0};
  cursor_t at = text;
  if (strchr(text, '!') && (!cursor_name(&at, mesh.name) || !cursor_accept(&at, '!'))) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a name is letters, digits and '_', below 32 of them",
                            "mesh '%s': the name before '!' is not a name", text);
  }
  if (!cursor_at_end(&at) && *at != '@') {
    do {
      SHOAL_RETURN_IF_ERROR(parse_axis(text, &at, &mesh));
    } while (cursor_accept(&at, ','));
  }
  if (cursor_accept(&at, '@')) SHOAL_RETURN_IF_ERROR(parse_ranks(text, &at, arena, &mesh));
  if (!cursor_at_end(&at)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write [name!]axis=size,...[@rank,rank-rank,...]",
                            "mesh '%s': cannot read '%s'", text, at);
  }
  *out_mesh = mesh;
  return NULL;
}

// ---- print -----------------------------------------------------------------------------

shoal_status_t shoal_mesh_print(const shoal_mesh_t *mesh, shoal_arena_t *arena,
                                const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  if (mesh->name[0]) shoal_text_addf(&text, "%s!", mesh->name);
  const char *separator = "";
  for (int32_t i = 0; i < mesh->axis_count; ++i, separator = ",") {
    shoal_text_addf(&text, "%s%s=%lld", separator, mesh->axes[i].name,
                    (long long)mesh->axes[i].size);
  }
  if (mesh->micro) shoal_text_addf(&text, "%smicro=%lld", separator, (long long)mesh->micro);
  if (mesh->ranks) {
    separator = "@";
    for (int64_t i = 0, next, size = shoal_mesh_size(mesh); i < size; i = next, separator = ",") {
      for (next = i + 1; next < size && mesh->ranks[next] == mesh->ranks[next - 1] + 1;) ++next;
      shoal_text_addf(&text, "%s%d", separator, mesh->ranks[i]);
      if (next > i + 1) shoal_text_addf(&text, "-%d", mesh->ranks[next - 1]);
    }
  }
  return shoal_text_finish(&text, arena, out_text);
}
