// SHOAL_COMM_THROTTLE: a cluster file and faults, separated by commas; see throttle.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "comm/backends/throttle/throttle.h"
#include "shoal/options.h"

#define VARIABLE "SHOAL_COMM_THROTTLE"
#define FORM "as in " VARIABLE "=cluster.yml,lose=17@1,delay=5@0:200ms"

// A positive number up to `end`; false: something else is there.
static bool read_count(const char **text, int64_t least, int64_t *out_value) {
  char *end;
  if (**text < '0' || **text > '9') return false;
  *out_value = strtoll(*text, &end, 10);
  *text = end;
  return *out_value >= least && *out_value < INT64_MAX;
}

// "200ms" and nothing behind it.
static bool read_time(const char *text, int64_t *out_ns) {
  static const struct {
    const char *unit;
    int64_t ns;
  } units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  int64_t value;
  if (!read_count(&text, 0, &value)) return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; ++i) {
    if (strcmp(text, units[i].unit) == 0) {
      return !__builtin_mul_overflow(value, units[i].ns, out_ns) &&
             *out_ns < INT64_C(1000000000) * 86400;
    }
  }
  return false;
}

// "lose=17@1" or "delay=5@0:200ms".
static shoal_status_t read_fault(const char *item, shoal_throttle_settings_t *settings) {
  static const char *const keys[] = {"lose", "delay"};
  char key[32];
  const char *at = strchr(item, '=') + 1;
  snprintf(key, sizeof key, "%.*s", (int)(at - item) - 1, item);
  const bool lose = strcmp(key, keys[0]) == 0;
  if (!lose && strcmp(key, keys[1]) != 0) {
    shoal_hint_t hint;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, shoal_did_you_mean(key, keys, 2, FORM, &hint),
                            VARIABLE ": unknown key '%s' in '%s'", key, item);
  }
  shoal_throttle_fault_t fault = {.delay_ns = SHOAL_THROTTLE_LOST};
  int64_t rank = 0;
  bool good = read_count(&at, 1, &fault.message) && *at++ == '@' && read_count(&at, 0, &rank) &&
              rank < INT32_MAX;
  good = good && (lose ? *at == 0 : *at == ':' && read_time(at + 1, &fault.delay_ns));
  if (!good) {
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, FORM, VARIABLE ": '%s' is not %s", item,
        lose ? "lose=MESSAGE@RANK" : "delay=MESSAGE@RANK:TIME, a time being 500us, 200ms or 1s");
  }
  if (settings->fault_count == SHOAL_THROTTLE_FAULTS) {
    return SHOAL_ERROR(INVALID_ARGUMENT, VARIABLE ": more than %d faults", SHOAL_THROTTLE_FAULTS);
  }
  fault.rank = (int32_t)rank;
  settings->faults[settings->fault_count++] = fault;
  return NULL;
}

static shoal_status_t read_cluster(const char *path, shoal_arena_t *arena,
                                   shoal_throttle_settings_t *settings) {
  const char *text;
  shoal_status_t status = shoal_cluster_read(path, arena->allocator, &settings->cluster);
  if (!status) status = shoal_cluster_check_links(settings->cluster, path);
  if (!status) status = shoal_cluster_print(settings->cluster, arena, &text);
  if (status) return shoal_status_annotatef(status, VARIABLE " names the cluster file '%s'", path);
  settings->hash = shoal_hash_string(settings->hash, text);
  return NULL;
}

shoal_status_t shoal_throttle_settings_read(const char *text, shoal_arena_t *arena,
                                            shoal_throttle_settings_t *out_settings) {
  *out_settings = (shoal_throttle_settings_t){0};
  if (!text || !text[0]) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, FORM,
                            "backend 'throttle' needs " VARIABLE ", which is not set");
  }
  *out_settings = (shoal_throttle_settings_t){.hash = shoal_hash_string(SHOAL_HASH_START, text)};
  for (const char *at = text;;) {
    const size_t length = strcspn(at, ",");
    char *item = shoal_arena_printf(arena, "%.*s", (int)length, at);
    if (!item) return SHOAL_OOM();
    if (strchr(item, '=')) {
      SHOAL_RETURN_IF_ERROR(read_fault(item, out_settings));
    } else if (length == 0 || out_settings->cluster) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, FORM, VARIABLE "='%s' has %s", text,
                              length == 0 ? "an empty part" : "a second cluster file");
    } else {
      SHOAL_RETURN_IF_ERROR(read_cluster(item, arena, out_settings));
    }
    if (!at[length]) break;
    at += length + 1;
  }
  return NULL;
}
