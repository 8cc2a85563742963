// Loaders: which samples make a batch, and when it is read. A slot holds one batch. Without a
// thread there is one; with one there are `ahead` and the one that the caller looks at.
//
// The thread fills slot `made % slots` while fewer than `ahead` are ready. Whatever changes where
// to go on (seek, want, an error that was handed over) waits until the thread is idle and starts a
// new generation from the caller's cursor.
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "data/loader_impl.h"

// ---- which samples --------------------------------------------------------------------

// The first cursor at or behind this one at which a batch begins.
static int64_t begin_at(const shoal_loader_t *loader, int64_t cursor) {
  const int64_t left = loader->samples - cursor % loader->samples;
  return loader->options.last_batch == SHOAL_LAST_DROPPED && left < loader->options.batch
             ? cursor + left
             : cursor;
}

static int64_t rows_at(const shoal_loader_t *loader, int64_t cursor) {
  int64_t rows = loader->options.batch;
  if (loader->options.last_batch == SHOAL_LAST_SHORT)
    rows = shoal_min64(rows, loader->samples - cursor % loader->samples);
  return shoal_min64(rows, shoal_max64(0, loader->end - cursor));
}

static void place(const shoal_loader_t *loader, int64_t cursor, shoal_loader_slot_t *slot) {
  slot->batch.cursor = begin_at(loader, cursor);
  slot->batch.rows = rows_at(loader, slot->batch.cursor);
  slot->batch.next_cursor = begin_at(loader, slot->batch.cursor + slot->batch.rows);
  slot->batch.epoch = slot->batch.cursor / loader->samples;
}

// ---- the thread -----------------------------------------------------------------------

static void read_ahead(void *self) {
  shoal_loader_t *loader = self;
  shoal_mutex_lock(&loader->mutex);
  while (!loader->stopping) {
    if (loader->made - loader->taken >= loader->options.ahead || loader->halted) {
      shoal_cond_wait(&loader->changed, &loader->mutex);
      continue;
    }
    shoal_loader_slot_t *slot = &loader->slots[loader->made % loader->slot_count];
    place(loader, loader->ahead_cursor, slot);
    loader->busy = true;
    shoal_mutex_unlock(&loader->mutex);
    slot->status = shoal_loader_fill(loader, slot);
    shoal_mutex_lock(&loader->mutex);
    loader->busy = false;
    ++loader->made;
    loader->ahead_cursor = slot->batch.next_cursor;
    // Nothing comes behind an error or the end: what follows is decided by the caller.
    loader->halted = loader->halted || slot->status || slot->batch.rows == 0;
    shoal_cond_broadcast(&loader->changed);
  }
  shoal_mutex_unlock(&loader->mutex);
}

// Waits until the thread does nothing and forgets what it has read.
static void halt(shoal_loader_t *loader) {
  if (!loader->thread.started) return;
  shoal_mutex_lock(&loader->mutex);
  loader->halted = true;
  while (loader->busy) shoal_cond_wait(&loader->changed, &loader->mutex);
  for (; loader->taken < loader->made; ++loader->taken) {
    shoal_loader_slot_t *slot = &loader->slots[loader->taken % loader->slot_count];
    shoal_status_free(slot->status);
    slot->status = NULL;
  }
  loader->stale = true;
  shoal_mutex_unlock(&loader->mutex);
}

// ---- interface ------------------------------------------------------------------------

static shoal_status_t check(shoal_dataset_t *dataset, const shoal_loader_options_t *options) {
  const int64_t count = shoal_dataset_count(dataset);
  if (options->batch < 1)
    return SHOAL_ERROR(INVALID_ARGUMENT, "batches of %lld rows", (long long)options->batch);
  if (options->ahead < 0 || options->ahead > SHOAL_LOADER_MOST_AHEAD)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%d batches ahead; the most is %d", options->ahead,
                       SHOAL_LOADER_MOST_AHEAD);
  if (options->epochs < 0 || options->epochs > SHOAL_LOADER_MOST_SAMPLES / count)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld epochs", (long long)options->epochs);
  if (options->last_batch == SHOAL_LAST_DROPPED && options->batch > count)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use smaller batches, or do not drop the last",
                            "'%s' has %lld samples, fewer than a batch of %lld",
                            shoal_dataset_name(dataset), (long long)count,
                            (long long)options->batch);
  return NULL;
}

shoal_status_t shoal_loader_create(shoal_dataset_t *dataset, const shoal_loader_options_t *options,
                                   shoal_loader_t **out_loader) {
  *out_loader = NULL;
  if (!dataset || !options)
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "a loader needs a data set, and options that say the batch");
  SHOAL_RETURN_IF_ERROR(check(dataset, options));
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  shoal_loader_t *loader = allocator.alloc(allocator.self, sizeof *loader);
  if (!loader) return SHOAL_OOM();
  *loader = (shoal_loader_t){.options = *options,
                             .dataset = shoal_dataset_retain(dataset),
                             .samples = shoal_dataset_count(dataset),
                             .end = SHOAL_LOADER_MOST_SAMPLES,
                             .slot_count = options->ahead + 1,
                             .stale = true,
                             .halted = true};
  if (options->epochs > 0) loader->end = options->epochs * loader->samples;
  shoal_arena_init(allocator, &loader->arena);
  shoal_arena_init(allocator, &loader->buffers);
  shoal_status_t status = shoal_mutex_init(&loader->mutex);
  if (!status) {
    status = shoal_cond_init(&loader->changed);
    if (status)
      shoal_mutex_deinit(&loader->mutex);
    else
      loader->initialised = true;
  }
  if (!status) status = shoal_loader_match(loader);
  if (!status) status = shoal_loader_seek(loader, options->cursor);
  if (status)
    shoal_loader_free(loader);
  else
    *out_loader = loader;
  return status;
}

void shoal_loader_free(shoal_loader_t *loader) {
  if (!loader) return;
  halt(loader);
  if (loader->thread.started) {
    shoal_mutex_lock(&loader->mutex);
    loader->stopping = true;
    shoal_cond_broadcast(&loader->changed);
    shoal_mutex_unlock(&loader->mutex);
    shoal_thread_join(&loader->thread);
  }
  if (loader->initialised) {
    shoal_cond_deinit(&loader->changed);
    shoal_mutex_deinit(&loader->mutex);
  }
  shoal_dataset_free(loader->dataset);
  const shoal_allocator_t allocator = loader->arena.allocator;
  shoal_arena_deinit(&loader->buffers);
  shoal_arena_deinit(&loader->arena);
  allocator.free(allocator.self, loader);
}

static shoal_status_t wait_for_slot(shoal_loader_t *loader, shoal_loader_slot_t **out_slot) {
  shoal_mutex_lock(&loader->mutex);
  if (loader->stale) {
    loader->stale = loader->halted = false;
    loader->ahead_cursor = loader->cursor;
    shoal_cond_broadcast(&loader->changed);
  }
  // The slot of the last batch is given back only now: the thread may fill it from here on.
  while (loader->taken == loader->made) shoal_cond_wait(&loader->changed, &loader->mutex);
  shoal_loader_slot_t *slot = &loader->slots[loader->taken % loader->slot_count];
  ++loader->taken;
  shoal_status_t status = slot->status;
  slot->status = NULL;
  if (status) loader->stale = true;
  shoal_cond_broadcast(&loader->changed);
  shoal_mutex_unlock(&loader->mutex);
  *out_slot = slot;
  return status;
}

shoal_status_t shoal_loader_next(shoal_loader_t *loader, shoal_batch_t *out_batch) {
  *out_batch = (shoal_batch_t){0};
  if (!loader->slots) SHOAL_RETURN_IF_ERROR(shoal_loader_prepare(loader));
  shoal_loader_slot_t *slot = loader->slots;
  if (loader->options.ahead == 0) {
    place(loader, loader->cursor, slot);
    SHOAL_RETURN_IF_ERROR(shoal_loader_fill(loader, slot));
  } else {
    if (!loader->thread.started)
      SHOAL_RETURN_IF_ERROR(shoal_thread_start(read_ahead, loader, &loader->thread));
    SHOAL_RETURN_IF_ERROR(wait_for_slot(loader, &slot));
    // Behind the end there is nothing to hand over, and the thread stands still.
    if (slot->batch.rows == 0) halt(loader);
  }
  *out_batch = slot->batch;
  loader->cursor = slot->batch.next_cursor;
  return NULL;
}

shoal_status_t shoal_loader_seek(shoal_loader_t *loader, int64_t cursor) {
  if (cursor < 0 || cursor > SHOAL_LOADER_MOST_SAMPLES)
    return SHOAL_ERROR(INVALID_ARGUMENT, "a cursor of %lld", (long long)cursor);
  halt(loader);
  loader->cursor = begin_at(loader, cursor);
  return NULL;
}

int64_t shoal_loader_cursor(const shoal_loader_t *loader) {
  return loader->cursor;
}

int64_t shoal_loader_epoch_samples(const shoal_loader_t *loader) {
  return loader->options.last_batch == SHOAL_LAST_DROPPED
             ? loader->samples / loader->options.batch * loader->options.batch
             : loader->samples;
}

int64_t shoal_loader_epoch_batches(const shoal_loader_t *loader) {
  const int64_t batch = loader->options.batch;
  return loader->samples / batch +
         (loader->options.last_batch == SHOAL_LAST_SHORT && loader->samples % batch != 0);
}

shoal_status_t shoal_loader_want(shoal_loader_t *loader, const char *name, int64_t batch_rows,
                                 const shoal_rows_t *rows, int64_t count) {
  halt(loader);
  loader->slots = NULL;  // as large as what is wanted: made again when the next batch is asked for
  shoal_arena_clear(&loader->buffers);
  return shoal_loader_set_rows(loader, name, batch_rows, rows, count);
}
