// Which algorithm a collective uses, by its kind, number of ranks and bytes: the first row that
// fits.
//
//   inline    small: data travels with the announcement; one meeting
//   direct    in place on the ranks' buffers; two meetings. Where a buffer is private: with the
//             announcement if it is small, else bounce
//   bounce    through node-addressable buffers, chunk by chunk
//   composed  messages through rings; any size, any memory
//
// As text, rows separated by ';' or line breaks: KIND[,n<=RANKS][,bytes<=BYTES]=ALGORITHM[/CHUNK]
// with '*' for any kind: "all_reduce,n<=2,bytes<=64K=bounce/32K; *=direct/128K". Rows of
// SHOAL_COMM_TABLE, the same on all ranks, come before the built-in ones.
#ifndef SHOAL_COMM_BACKENDS_LOCAL_TABLE_H_
#define SHOAL_COMM_BACKENDS_LOCAL_TABLE_H_

#include "base/text.h"
#include "shoal/comm.h"

typedef enum shoal_local_algorithm {
  SHOAL_LOCAL_INLINE,
  SHOAL_LOCAL_DIRECT,
  SHOAL_LOCAL_BOUNCE,
  SHOAL_LOCAL_COMPOSED
} shoal_local_algorithm_t;

typedef struct shoal_local_row {
  int32_t kind;   // shoal_collective_kind_t; -1: any
  int32_t ranks;  // at most; 0: any
  int64_t bytes;  // at most; -1: any
  shoal_local_algorithm_t algorithm;
  int64_t chunk;  // bytes a rank brings at a time, of bounce
} shoal_local_row_t;

#define SHOAL_LOCAL_ROWS 32
typedef struct shoal_local_table {
  int32_t count, given;  // the first `given` rows are SHOAL_COMM_TABLE's
  shoal_local_row_t rows[SHOAL_LOCAL_ROWS];
} shoal_local_table_t;

// The built-in rows behind those of `text` (NULL: none).
SHOAL_MUST_USE shoal_status_t shoal_local_table_init(const char *text,
                                                     shoal_local_table_t *out_table);
const shoal_local_row_t *shoal_local_table_find(const shoal_local_table_t *table,
                                                shoal_collective_kind_t kind, int32_t ranks,
                                                int64_t bytes);

#endif  // SHOAL_COMM_BACKENDS_LOCAL_TABLE_H_
