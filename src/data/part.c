// Parts of a data set: a range of its samples as they come, or of their order once shuffled. The
// shuffle has a seed of its own, so that what is held out stays the same in every run.
#include "base/status.h"
#include "data/dataset.h"
#include "data/order.h"

enum { DEALING_SEED = 0x5A0A1 };

typedef struct part {
  shoal_allocator_t allocator;
  shoal_dataset_t *whole;
  int64_t begin;
  bool dealt;
} part_t;

static shoal_status_t read_part(void *self, const shoal_sample_t *sample,
                                void *const *out_columns) {
  const part_t *part = self;
  shoal_sample_t of_whole = *sample;
  of_whole.index += part->begin;
  if (part->dealt)
    of_whole.index =
        shoal_order_permute(DEALING_SEED, 0, shoal_dataset_count(part->whole), of_whole.index);
  return shoal_dataset_read(part->whole, &of_whole, out_columns);
}

static void free_part(void *self) {
  part_t *part = self;
  shoal_dataset_free(part->whole);
  part->allocator.free(part->allocator.self, part);
}

shoal_status_t shoal_part_create(shoal_dataset_t *whole, int64_t begin, int64_t count, bool dealt,
                                 shoal_dataset_t **out_part) {
  const shoal_allocator_t allocator = shoal_dataset_allocator(whole);
  part_t *part = allocator.alloc(allocator.self, sizeof *part);
  if (!part) return SHOAL_OOM();
  *part = (part_t){
      .allocator = allocator, .whole = shoal_dataset_retain(whole), .begin = begin, .dealt = dealt};
  shoal_status_t status = shoal_dataset_create(
      shoal_dataset_name(whole), count, shoal_dataset_column(whole, 0),
      shoal_dataset_column_count(whole),
      &(shoal_dataset_ops_t){.read = read_part, .free = free_part}, part, allocator, out_part);
  if (status) free_part(part);
  return status;
}
