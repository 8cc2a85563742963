// The numbers of a run: lines of JSON, and TensorBoard's events. Each step is one write to each
// file, so that a run that is killed leaves whole lines and records behind, but for the last.
#include "shoal/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "data/events.h"

struct shoal_metrics {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  const char *jsonl_path, *events_path;  // NULL: not written
  int jsonl, events;
  shoal_text_t line;
  shoal_buffer_t record;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static shoal_status_t failed(const char *path, int error) {
  return SHOAL_ERROR(IO, "cannot write '%s': %s", path, strerror(error));
}

static shoal_status_t write_all(int file, const char *path, const char *data, int64_t length) {
  while (length > 0) {
    const ssize_t done = write(file, data, (size_t)length);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(path, errno);
    data += done;
    length -= done;
  }
  return NULL;
}

// ---- opening ------------------------------------------------------------------------------------

// Takes away a line that a killed run left unfinished, so that all lines are whole.
static shoal_status_t drop_unfinished(shoal_metrics_t *m) {
  char block[4096];
  off_t size = lseek(m->jsonl, 0, SEEK_END);
  const off_t before = size;
  while (size > 0) {
    const off_t start = size > (off_t)sizeof block ? size - (off_t)sizeof block : 0;
    const ssize_t got = pread(m->jsonl, block, (size_t)(size - start), start);
    if (got != size - start) return failed(m->jsonl_path, got < 0 ? errno : EIO);
    const char *end = memrchr(block, '\n', (size_t)got);
    size = end ? start + (end - block) + 1 : start;
    if (end) break;
  }
  if (size == before || size < 0) return NULL;  // nothing to do, or no plain file
  return ftruncate(m->jsonl, size) == 0 ? NULL : failed(m->jsonl_path, errno);
}

// A file that holds something else is somebody's work, or the very data: it is not written over.
static shoal_status_t check_holds_metrics(const shoal_metrics_t *m) {
  static const char begin[] = "{\"step\":";
  char head[sizeof begin - 1];
  const ssize_t got = pread(m->jsonl, head, sizeof head, 0);
  if (got <= 0 || memcmp(head, begin, (size_t)got) == 0) return NULL;  // empty, or no plain file
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a new file, or remove this one first",
                          "'%s' holds something else than metrics: it is left as it is",
                          m->jsonl_path);
}

static shoal_status_t open_jsonl(shoal_metrics_t *m, bool append) {
  m->jsonl = open(m->jsonl_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (m->jsonl < 0) return failed(m->jsonl_path, errno);
  SHOAL_RETURN_IF_ERROR(check_holds_metrics(m));
  if (append) return drop_unfinished(m);
  // Terminals and pipes have no length.
  return ftruncate(m->jsonl, 0) == 0 || errno == EINVAL ? NULL : failed(m->jsonl_path, errno);
}

static shoal_status_t open_events(shoal_metrics_t *m, const char *folder) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  const double time = now();
  SHOAL_RETURN_IF_ERROR(shoal_file_make_folder(folder));
  m->events_path = shoal_arena_printf(&m->arena, "%s/events.out.tfevents.%010lld.%s.%ld.shoal",
                                      folder, (long long)time, host, (long)getpid());
  if (!m->events_path) return SHOAL_OOM();
  m->events = open(m->events_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (m->events < 0) return failed(m->events_path, errno);
  if (lseek(m->events, 0, SEEK_END) > 0) return NULL;  // opened twice within a second
  if (!shoal_events_version(m->allocator, time, &m->record)) return SHOAL_OOM();
  return write_all(m->events, m->events_path, m->record.data, m->record.length);
}

static shoal_status_t open_files(shoal_metrics_t *m, const shoal_metrics_options_t *options) {
  if (options->jsonl) {
    m->jsonl_path = shoal_arena_strdup(&m->arena, options->jsonl);
    if (!m->jsonl_path) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(open_jsonl(m, options->append));
  }
  return options->tensorboard ? open_events(m, options->tensorboard) : NULL;
}

shoal_status_t shoal_metrics_open(const shoal_metrics_options_t *options,
                                  shoal_metrics_t **out_metrics) {
  static const shoal_metrics_options_t defaults;
  *out_metrics = NULL;
  if (!options) options = &defaults;
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  shoal_metrics_t *m = allocator.alloc(allocator.self, sizeof *m);
  if (!m) return SHOAL_OOM();
  *m = (shoal_metrics_t){.allocator = allocator, .jsonl = -1, .events = -1};
  shoal_arena_init(allocator, &m->arena);
  shoal_text_init(allocator, &m->line);
  shoal_status_t status = open_files(m, options);
  if (status) {
    shoal_metrics_free(m);
    return status;
  }
  *out_metrics = m;
  return NULL;
}

void shoal_metrics_free(shoal_metrics_t *m) {
  if (!m) return;
  if (m->jsonl >= 0) close(m->jsonl);
  if (m->events >= 0) close(m->events);
  shoal_text_deinit(&m->line);
  shoal_buffer_deinit(m->allocator, &m->record);
  shoal_arena_deinit(&m->arena);
  m->allocator.free(m->allocator.self, m);
}

// ---- writing ------------------------------------------------------------------------------------

static shoal_status_t check_names(const shoal_metric_t *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const char *name = values[i].name;
    bool twice = strcmp(name, "step") == 0 || strcmp(name, "time") == 0;
    for (int64_t k = 0; k < i && !twice; ++k) twice = strcmp(values[k].name, name) == 0;
    if (twice || !*name) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "every line has a step and a time of its own",
                              "a metric cannot have the name '%s'%s", name,
                              *name ? ": there is one already" : "");
    }
  }
  return NULL;
}

shoal_status_t shoal_metrics_write(shoal_metrics_t *m, int64_t step, const shoal_metric_t *values,
                                   int64_t count) {
  SHOAL_RETURN_IF_ERROR(check_names(values, count));
  const double time = now();
  if (m->jsonl >= 0) {
    m->line.length = 0;
    shoal_json_writer_t w;
    shoal_json_writer_init(&m->line, &w);
    shoal_json_begin(&w, NULL, '{', true);
    shoal_json_int(&w, "step", step);
    shoal_json_real(&w, "time", (double)(int64_t)(time * 1e3) / 1e3);
    for (int64_t i = 0; i < count; ++i) shoal_json_real(&w, values[i].name, values[i].value);
    shoal_json_end(&w, '}');
    SHOAL_RETURN_IF_ERROR(shoal_text_status(&m->line));
    SHOAL_RETURN_IF_ERROR(
        write_all(m->jsonl, m->jsonl_path, m->line.data, (int64_t)m->line.length));
  }
  if (m->events < 0) return NULL;
  m->record.length = 0;
  if (!shoal_events_scalars(m->allocator, time, step, values, count, &m->record))
    return SHOAL_OOM();
  return write_all(m->events, m->events_path, m->record.data, m->record.length);
}
