// Shoal, data: data sets, and batches made of them.
//
//   shoal_dataset_t   a number of samples with named columns, in any order: files, or your callback
//   shoal_loader_t    batches of a data set: shuffled, resumable, read ahead on a thread
//
//   status = shoal_dataset_open("poems.txt", &(shoal_dataset_options_t){.length = 64}, &text);
//   if (!status) status = shoal_dataset_split(text, 0.1, &training, &validation);
//   if (!status)
//     status = shoal_loader_create(training, &(shoal_loader_options_t){.batch = 8, .seed = 1},
//                                  &loader);
//   while (!status && ...) {
//     shoal_batch_t batch;
//     status = shoal_loader_next(loader, &batch);
//     for (int32_t i = 0; !status && i < batch.column_count; ++i)
//       status = shoal_feed(session, batch.columns[i].name, batch.columns[i].data,
//                           batch.columns[i].bytes);
//     ...
//   }
//
// Sample n of a run is a function of the seed and n alone: any rank can make any row of any batch,
// and a cursor - how many samples were used - is all that resuming needs, also on another number of
// ranks. All functions are *Not collective*. Errors of bad data name the file and the sample.
#ifndef SHOAL_DATA_H_
#define SHOAL_DATA_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Data sets
// -------------------------------------------------------------------------------------------------

typedef struct shoal_dataset shoal_dataset_t;

#define SHOAL_MAX_COLUMNS 32

// What a sample has under a name: "ids" and "labels", or "x" and "y".
typedef struct shoal_column {
  const char *name;
  shoal_dtype_t dtype;
  shoal_shape_t shape;  // of one sample
  int64_t classes;      // of integers: they lie in [0, classes); 0: not known
} shoal_column_t;

// Which sample, and what may be drawn for it.
typedef struct shoal_sample {
  int64_t index;  // in [0, count)
  bool varied;    // false: as it is stored. true: the data set may vary it (crops, flips, windows
                  // that begin elsewhere) by what it draws from the next two
  int64_t epoch;
  uint64_t seed;
} shoal_sample_t;

// A data set of one's own. Calls are never made from two threads at once.
typedef struct shoal_dataset_ops {
  // Writes the sample's columns, dense, to out_columns[i]; those that are NULL are not wanted. A
  // function of its arguments alone, so that runs can be resumed. May be called from another thread
  // than the one that made the data set.
  shoal_status_t (*read)(void *self, const shoal_sample_t *sample, void *const *out_columns);
  void (*free)(void *self);  // optional
  // Optional: two data sets, the second of `held_out` samples that share nothing with the first's.
  // NULL: samples are dealt at random, which is right unless neighbours overlap.
  shoal_status_t (*split)(void *self, int64_t held_out, shoal_dataset_t **out_rest,
                          shoal_dataset_t **out_held_out);
} shoal_dataset_ops_t;

// Makes a data set of `count` samples from callbacks. `name` is for messages; it and the columns
// are copied. Takes `self`, which ops->free gets when the data set goes; not when creation fails.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_dataset_create(const char *name, int64_t count, const shoal_column_t *columns,
                     int32_t column_count, const shoal_dataset_ops_t *ops, void *self,
                     shoal_allocator_t allocator, shoal_dataset_t **out_dataset);
// NULL is allowed. Parts and loaders that were made of it keep what they need.
SHOAL_API void shoal_dataset_free(shoal_dataset_t *dataset);

SHOAL_API const char *shoal_dataset_name(const shoal_dataset_t *dataset);
SHOAL_API int64_t shoal_dataset_count(const shoal_dataset_t *dataset);
SHOAL_API int32_t shoal_dataset_column_count(const shoal_dataset_t *dataset);
SHOAL_API const shoal_column_t *shoal_dataset_column(const shoal_dataset_t *dataset, int32_t i);
// -1: there is none of that name.
SHOAL_API int32_t shoal_dataset_find_column(const shoal_dataset_t *dataset, const char *name);
// Reads one sample; blocks for the file system. out_columns as in the callback.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_read(shoal_dataset_t *dataset,
                                                           const shoal_sample_t *sample,
                                                           void *const *out_columns);

// Two data sets that share no sample: `held_out` is a share of the samples where it is below 1,
// else their number. Which ones are held out depends on the data alone, not on any seed. Windows of
// a text that are held out lie together at its end: none overlaps one of the rest.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_split(shoal_dataset_t *dataset,
                                                            double held_out,
                                                            shoal_dataset_t **out_rest,
                                                            shoal_dataset_t **out_held_out);
// Part `part` of `parts` in a row: the first count % parts of them have one sample more, or
// (`equal`) as many samples as that takes are left out at the end. Ranks do not need this: a loader
// reads only the rows it is told to. It is for who gives each host files of its own.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_part(shoal_dataset_t *dataset, int64_t part,
                                                           int64_t parts, bool equal,
                                                           shoal_dataset_t **out_part);

// -------------------------------------------------------------------------------------------------
// Data sets from files
// -------------------------------------------------------------------------------------------------

typedef struct shoal_dataset_options {
  shoal_allocator_t allocator;  // zero: the system's
  const char *kind;             // NULL: told from the files; see shoal_dataset_open

  // What the model takes, without the rows of a batch. May be left out: then `length` and `size`
  // say what is asked here. Made-up data needs it.
  const shoal_column_t *inputs;
  int32_t input_count;

  // Text and tokens
  int64_t length;         // T, tokens of a window; 0: that of the input "ids"
  const char *tokenizer;  // as shoal_tokenizer_open takes it; NULL: bytes are tokens
  int64_t token_bytes;    // of a token file without a header: 2 (also 0) or 4
  // Images: x is f32 [channels, height, width], pixels in [0, 1]
  bool test;              // MNIST, CIFAR, folders of text or tokens: the part to test on
  int64_t height, width;  // 0: those of the input "x", else as stored (folders: of all alike)
  int64_t channels;       // of folders: 1 or 3; 0: those of the input "x", else 3
  int64_t resize;         // of folders: shorter side before cropping; 0: that of the crop
  double mean[3], deviation[3];  // (pixel - mean) / deviation; deviation 0: 1. By channel
  // Drawn for samples that may be varied
  bool flip;         // left and right, every second time
  bool random_crop;  // from anywhere, not from the middle
  int64_t pad;       // black pixels around the image before cropping
  // Made-up data
  uint64_t seed;
  int64_t count;  // samples; 0: 65536
} shoal_dataset_options_t;

// Opens files. What they are is told from `kind`, a prefix ("cifar10:FOLDER") or what they hold:
//
//   bytes      any file: its bytes as tokens                               ids, labels i32 [T]
//   text       any file, through options.tokenizer; tokens are kept in memory       the same
//   tokens     .bin of u16 or u32, as nanoGPT writes them or with the header of Karpathy's C
//              trainer; .npy of integers                                   the same
//   arrays     .npy files of C order, samples along their first dim: "X.npy,Y.npy" are x and y,
//              "a=A.npy,b=B.npy" names them, of a folder all *.npy are columns
//   mnist      idx files "IMAGES,LABELS" or their folder                   x f32 [1, H, W], y i32
//   cifar10, cifar100   the binary version, a file or its folder           x f32 [3, 32, 32], y i32
//   images     a folder with a sub-folder of PNG and JPEG files per class  x f32 [C, H, W], y i32
//   classes    made up: x around the centre of its class y                 as the model's x and y
//   random     made up: normal numbers, and integers below `classes`       as the model's inputs
//              (files of these names are "./classes" and "./random")
//
// Tokens come in windows of `length` (labels are one further on) from an offset that changes from
// epoch to epoch; a list "A.bin,B.bin" of files of one kind is read as one. Of a folder these are
// the .bin files, or the .txt files, or all files, if every one is a text. Files stay open.
// NOT_FOUND, IO, or INVALID_ARGUMENT for files that are damaged or are not of that kind;
// UNAVAILABLE where this build cannot read images.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_open(const char *path,
                                                           const shoal_dataset_options_t *options,
                                                           shoal_dataset_t **out_dataset);

// -------------------------------------------------------------------------------------------------
// Loaders
// -------------------------------------------------------------------------------------------------

typedef struct shoal_loader shoal_loader_t;

// Rows [begin, end) of a batch.
typedef struct shoal_rows {
  int64_t begin, end;
} shoal_rows_t;

// What happens where fewer samples than a batch are left of an epoch.
typedef enum shoal_last {
  SHOAL_LAST_FILLED,  // the next epoch begins in the same batch: all batches are alike
  SHOAL_LAST_SHORT,   // a batch of fewer rows, for a graph of that many
  SHOAL_LAST_DROPPED  // they are left out
} shoal_last_t;

typedef struct shoal_loader_options {
  shoal_allocator_t allocator;  // zero: the system's
  int64_t batch;                // rows of a batch, of all ranks together
  uint64_t seed;                // of the order, and of what is drawn for samples
  bool in_order;                // not shuffled
  bool as_stored;               // samples are not varied: for evaluation
  shoal_last_t last;
  int64_t epochs;  // then batches have 0 rows; 0: without end
  int64_t cursor;  // where to begin
  int32_t ahead;   // batches that a thread reads ahead; 0: next reads them itself

  // What the model takes, without the rows: columns are found by name, cast, and may have another
  // shape of as many elements; integers are checked against `classes`. NULL: columns as they are.
  const shoal_column_t *inputs;
  int32_t input_count;
} shoal_loader_options_t;

typedef struct shoal_batch_column {
  const char *name;
  shoal_dtype_t dtype;
  const void *data;     // [rows, ...] dense: the wanted rows one after the other
  int64_t rows, bytes;  // how many of them there are
} shoal_batch_column_t;

// Lies in the loader until the next call of next, seek, want or free.
typedef struct shoal_batch {
  int64_t cursor;       // samples that were used before it
  int64_t next_cursor;  // ... and with it: what to save, to go on behind it
  int64_t epoch;        // of its first row
  int64_t rows;         // of the whole batch; 0: the epochs are over
  const shoal_batch_column_t *columns;
  int32_t column_count;
} shoal_batch_t;

// The data set may be freed; the loader keeps what it needs.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_create(shoal_dataset_t *dataset,
                                                            const shoal_loader_options_t *options,
                                                            shoal_loader_t **out_loader);
SHOAL_API void shoal_loader_free(shoal_loader_t *loader);  // NULL is allowed

// The next batch. After the first it does not allocate, but for decoders of images. An error leaves
// the cursor where it is: the next call tries again.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_next(shoal_loader_t *loader,
                                                          shoal_batch_t *out_batch);
// Goes on at a cursor; one that was saved, or any other.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_seek(shoal_loader_t *loader, int64_t cursor);
SHOAL_API int64_t shoal_loader_cursor(const shoal_loader_t *loader);  // of the next batch
// Samples that an epoch uses, and its batches (with SHOAL_LAST_FILLED: the full ones).
SHOAL_API int64_t shoal_loader_epoch_samples(const shoal_loader_t *loader);
SHOAL_API int64_t shoal_loader_epoch_batches(const shoal_loader_t *loader);

// Of batches with `batch_rows` rows, only these are wanted of column `name` (NULL: of all), in this
// order; others are not read. So a rank reads what it feeds as its part, and nothing else.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_want(shoal_loader_t *loader, const char *name,
                                                          int64_t batch_rows,
                                                          const shoal_rows_t *rows, int64_t count);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_DATA_H_
