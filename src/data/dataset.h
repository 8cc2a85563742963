// Internal side of data sets: parts share their whole, and what is wrong with files.
#ifndef SHOAL_DATA_DATASET_H_
#define SHOAL_DATA_DATASET_H_

#include "shoal/data.h"

// Another owner of the same data set; shoal_dataset_free takes one away.
shoal_dataset_t *shoal_dataset_retain(shoal_dataset_t *dataset);
shoal_allocator_t shoal_dataset_allocator(const shoal_dataset_t *dataset);

// Samples [begin, begin + count) of the whole; `dealt`: of an order that is fixed for good.
SHOAL_MUST_USE shoal_status_t shoal_part_create(shoal_dataset_t *whole, int64_t begin,
                                                int64_t count, bool dealt,
                                                shoal_dataset_t **out_part);

#endif  // SHOAL_DATA_DATASET_H_
