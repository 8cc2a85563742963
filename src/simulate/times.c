// Measured times: a JSON file that a run wrote (`shoal train --times-out`), or somebody by hand.
//
//   {"shoal_times": 1, "overlap": true, "link": {"latency": 5e-5, "bandwidth": 1.25e8},
//    "instructions": [{"class": 0, "segment": "train.loop.1", "index": 7, "name": "fc1/matmul",
//                      "seconds": 1.3e-4}, ...], ...}
//
// An instruction is named by class, segment and its index there; `name` is for readers. Those that
// are not listed are priced. `link` takes the place of all the cluster's links. Further keys that a
// run writes (graph, steps, ranks, step_seconds) are for readers too.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "simulate/simulate_impl.h"

typedef struct entry {
  int64_t class_index, index;
  const char *segment;
  double seconds;
} entry_t;

struct shoal_times {
  shoal_arena_t *arena;
  bool has_link, overlap;
  shoal_cluster_link_t link;
  int64_t count;
  entry_t *entries;  // sorted
};

static int compare(const void *a, const void *b) {
  const entry_t *x = a, *y = b;
  if (x->class_index != y->class_index) return x->class_index < y->class_index ? -1 : 1;
  const int segment = strcmp(x->segment, y->segment);
  if (segment) return segment;
  return (x->index > y->index) - (x->index < y->index);
}

static shoal_status_t read_entry(const shoal_json_t *json, entry_t *out_entry) {
  static const char *const keys[] = {"class", "segment", "index", "name", "seconds", "count"};
  if (json->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not an object", json->path);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(json, keys, sizeof keys / sizeof *keys));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(json, "class", &out_entry->class_index));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(json, "segment", &out_entry->segment));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(json, "index", &out_entry->index));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_real(json, "seconds", &out_entry->seconds));
  if (out_entry->seconds >= 0 && out_entry->seconds < 1e9) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s.seconds must not be negative", json->path);
}

static shoal_status_t read_link(const shoal_json_t *root, shoal_times_t *times) {
  static const char *const keys[] = {"latency", "bandwidth"};
  const shoal_json_t *json = shoal_json_find(root, "link");
  if (!json || json->kind == SHOAL_JSON_NULL) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "link", SHOAL_JSON_OBJECT, &json));
  SHOAL_RETURN_IF_ERROR(shoal_json_only(json, keys, 2));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_real(json, "latency", &times->link.latency));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_real(json, "bandwidth", &times->link.bandwidth));
  times->has_link = true;
  if (times->link.latency >= 0 && times->link.bandwidth > 0) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s: latency must not be negative, bandwidth positive",
                     json->path);
}

static shoal_status_t read_all(const shoal_json_t *root, const char *name, shoal_times_t *times) {
  static const char *const keys[] = {"shoal_times", "graph",        "steps", "ranks",
                                     "overlap",     "step_seconds", "link",  "instructions"};
  if (root->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a times file is an object", name);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(root, keys, sizeof keys / sizeof *keys));
  int64_t version;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(root, "shoal_times", &version));
  if (version != 1) {
    return SHOAL_ERROR(UNSUPPORTED, "%s: times format %lld; this version reads 1", name,
                       (long long)version);
  }
  const shoal_json_t *overlap = shoal_json_find(root, "overlap"), *list = NULL;
  if (overlap && overlap->kind != SHOAL_JSON_BOOL) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is neither true nor false", overlap->path);
  }
  times->overlap = !overlap || overlap->boolean;
  SHOAL_RETURN_IF_ERROR(read_link(root, times));
  if (!shoal_json_find(root, "instructions")) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "instructions", SHOAL_JSON_ARRAY, &list));
  times->entries = SHOAL_NEW(times->arena, entry_t, list->count);
  if (!times->entries) return SHOAL_OOM();
  for (int64_t i = 0; i < list->count; ++i) {
    SHOAL_RETURN_IF_ERROR(read_entry(&list->children[i], &times->entries[i]));
  }
  times->count = list->count;
  if (times->count > 1) {
    qsort(times->entries, (size_t)times->count, sizeof *times->entries, compare);
  }
  for (int64_t i = 1; i < times->count; ++i) {
    const entry_t *e = &times->entries[i];
    if (compare(e - 1, e) != 0) continue;
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: class %lld, segment '%s', index %lld is there twice",
                       name, (long long)e->class_index, e->segment, (long long)e->index);
  }
  return NULL;
}

shoal_status_t shoal_times_parse(const char *name, const char *text, shoal_allocator_t allocator,
                                 shoal_times_t **out_times) {
  *out_times = NULL;
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(
      shoal_arena_create(allocator.alloc ? allocator : shoal_allocator_system(), &arena));
  shoal_times_t *times = SHOAL_NEW(arena, shoal_times_t, 1);
  const shoal_json_t *root;
  shoal_status_t status = times ? shoal_json_parse(name, text, arena, &root) : SHOAL_OOM();
  if (!status) {
    times->arena = arena;
    status = shoal_status_annotatef(read_all(root, name, times), "times file '%s'", name);
  }
  if (status) {
    shoal_arena_free(arena);
    return status;
  }
  *out_times = times;
  return NULL;
}

void shoal_times_free(shoal_times_t *times) {
  if (times) shoal_arena_free(times->arena);
}

bool shoal_times_find(const shoal_times_t *times, int64_t class_index, const char *segment,
                      int64_t index, double *out_seconds) {
  const entry_t key = {.class_index = class_index, .index = index, .segment = segment};
  const entry_t *found =
      times->count == 0 ? NULL
                        : bsearch(&key, times->entries, (size_t)times->count, sizeof key, compare);
  if (found) *out_seconds = found->seconds;
  return found != NULL;
}

shoal_status_t shoal_times_check(const shoal_times_t *times, const shoal_program_t *program) {
  for (int64_t i = 0; i < times->count; ++i) {
    const entry_t *e = &times->entries[i];
    const shoal_class_t *c = e->class_index >= 0 && e->class_index < program->class_count
                                 ? &program->classes[e->class_index]
                                 : NULL;
    bool found = false;
    for (int64_t s = 0; c && s < c->segment_count && !found; ++s) {
      found = strcmp(c->segments[s].name, e->segment) == 0 && e->index >= 0 &&
              e->index < c->segments[s].instruction_count;
    }
    if (found) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "measure this program: shoal train --times-out FILE",
                            "the times are of another program: this one has no instruction %lld in "
                            "segment '%s' of class %lld",
                            (long long)e->index, e->segment, (long long)e->class_index);
  }
  return NULL;
}

const shoal_cluster_link_t *shoal_times_link(const shoal_times_t *times) {
  return times->has_link ? &times->link : NULL;
}

bool shoal_times_overlap(const shoal_times_t *times) {
  return times->overlap;
}
