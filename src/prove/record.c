// Writing and reading a rank's records. Each is a header, the name with its NUL, then the data;
// both padded to 8 bytes so that data can be read in place.
#include "prove/record.h"

#include <string.h>

#include "base/status.h"

typedef struct header {
  int32_t kind, run, micro, layout;
  int32_t dtype, unused;
  int64_t name_bytes, data_bytes;
} header_t;

static int64_t padded(int64_t bytes) {
  return (bytes + 7) & ~(int64_t)7;
}

void shoal_record_log_init(shoal_allocator_t allocator, shoal_record_log_t *out_log) {
  *out_log = (shoal_record_log_t){.allocator = allocator};
  shoal_arena_init(allocator, &out_log->arena);
}

void shoal_record_log_deinit(shoal_record_log_t *log) {
  if (log->allocator.free) log->allocator.free(log->allocator.self, log->data);
  shoal_arena_deinit(&log->arena);
  *log = (shoal_record_log_t){0};
}

static char *room(shoal_record_log_t *log, int64_t bytes) {
  if (log->failed) return NULL;
  if (log->size + bytes > log->capacity) {
    int64_t capacity = log->capacity ? 2 * log->capacity : 1 << 16;
    while (capacity < log->size + bytes) capacity *= 2;
    char *data = log->allocator.alloc(log->allocator.self, (size_t)capacity);
    if (!data) {
      log->failed = true;
      return NULL;
    }
    if (log->size) memcpy(data, log->data, (size_t)log->size);
    log->allocator.free(log->allocator.self, log->data);
    log->data = data;
    log->capacity = capacity;
  }
  char *at = log->data + log->size;
  log->size += bytes;
  return at;
}

static void add(shoal_record_log_t *log, header_t header, const char *name, const void *data) {
  header.run = log->run;
  header.name_bytes = padded((int64_t)strlen(name) + 1);
  const int64_t bytes = header.data_bytes;
  int64_t total = (int64_t)sizeof header + header.name_bytes + padded(bytes);
  char *at = room(log, total);
  if (!at) return;
  memset(at, 0, (size_t)total);
  memcpy(at, &header, sizeof header);
  memcpy(at + sizeof header, name, strlen(name));
  if (bytes) memcpy(at + (int64_t)sizeof header + header.name_bytes, data, (size_t)bytes);
}

void shoal_record_add(shoal_record_log_t *log, shoal_record_kind_t kind, int32_t micro,
                      int32_t layout, const char *name, const void *data, int64_t bytes) {
  const header_t header = {
      .kind = (int32_t)kind, .micro = micro, .layout = layout, .data_bytes = bytes};
  add(log, header, name, data);
}

// The number of a layout; prints it when it is new. Layouts live in the program, so their address
// is enough.
static int32_t number_of(shoal_record_log_t *log, const shoal_layout_t *layout) {
  for (int64_t i = log->known.count; i-- > 0;)
    if (log->known.items[i] == layout) return (int32_t)i;
  const char *text = NULL;
  shoal_status_t status = shoal_layout_print(layout, &log->arena, &text);
  if (status || !SHOAL_PUSH(&log->arena, &log->known, layout)) {
    shoal_status_free(status);
    log->failed = true;
    return -1;
  }
  shoal_record_add(log, SHOAL_RECORD_LAYOUT, -1, (int32_t)log->known.count - 1, text, NULL, 0);
  return (int32_t)log->known.count - 1;
}

void shoal_record_tap(void *self, int32_t rank, const char *graph, const char *value,
                      const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                      const void *data, int64_t bytes) {
  shoal_record_log_t *log = self;
  (void)rank, (void)graph;
  const header_t header = {.kind = SHOAL_RECORD_TAP,
                           .micro = (int32_t)micro,
                           .layout = number_of(log, layout),
                           .dtype = (int32_t)whole->dtype,
                           .data_bytes = bytes};
  add(log, header, value, data);
}

shoal_status_t shoal_records_read(const char *data, int64_t size, int32_t rank,
                                  shoal_arena_t *arena, const shoal_record_t **out_records,
                                  int64_t *out_count) {
  SHOAL_VEC(shoal_record_t) records = {0};
  for (int64_t at = 0; at < size;) {
    header_t header;
    if (size - at < (int64_t)sizeof header)
      return SHOAL_ERROR(INTERNAL, "rank %d's records end early", rank);
    memcpy(&header, data + at, sizeof header);
    at += (int64_t)sizeof header;
    if (header.name_bytes < 0 || header.data_bytes < 0 ||
        size - at < header.name_bytes + padded(header.data_bytes))
      return SHOAL_ERROR(INTERNAL, "rank %d's records are damaged", rank);
    shoal_record_t record = {.kind = (shoal_record_kind_t)header.kind,
                             .rank = rank,
                             .run = header.run,
                             .micro = header.micro,
                             .layout = header.layout,
                             .dtype = (shoal_dtype_t)header.dtype,
                             .sequence = records.count,
                             .name = data + at,
                             .data = data + at + header.name_bytes,
                             .bytes = header.data_bytes};
    at += header.name_bytes + padded(header.data_bytes);
    if (!SHOAL_PUSH(arena, &records, record)) return SHOAL_OOM();
  }
  *out_records = records.items;
  *out_count = records.count;
  return NULL;
}
