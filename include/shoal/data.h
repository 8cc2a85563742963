// Shoal, data: data sets, and loaders that make batches of them.
//
//   shoal_dataset_t   samples with named columns, read in any order: files, or your callback
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
// Sample n of a run is a function of the seed and n alone. So any rank can make any row of any
// batch, and the *cursor*, the number of samples that came before, is all that resuming needs, also
// on another number of ranks.
//
// All functions are *Not collective*. Those that open or read files block until the file system has
// answered. Errors about bad data name the file and the sample.
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

// One named tensor of every sample: "ids" and "labels", or "x" and "y".
typedef struct shoal_column {
  const char *name;
  shoal_dtype_t dtype;
  shoal_shape_t shape;  // of one sample
  int64_t classes;      // integers only: values lie in [0, classes); 0: not known
  bool follows;         // labels of text and tokens: the ids one position later
} shoal_column_t;

// Which sample to read, and whether to augment it.
typedef struct shoal_sample {
  int64_t index;  // in [0, count)
  bool varied;  // false: as it is stored. true: the data set may augment it (crops, flips, windows
                // that begin elsewhere), with random numbers made from the index and the next two
  int64_t epoch;
  uint64_t seed;
} shoal_sample_t;

// The callbacks of a data set of your own. Never called from two threads at once, but possibly from
// another thread than the one that created the data set.
typedef struct shoal_dataset_ops {
  // Writes column i of the sample, dense, to out_columns[i]; a NULL there means that this column is
  // not wanted. The result must depend on the arguments alone, so that runs can be resumed.
  shoal_status_t (*read)(void *self, const shoal_sample_t *sample, void *const *out_columns);
  void (*free)(void *self);  // optional
  // Optional: makes two new data sets, the second of `held_out` samples that have nothing in common
  // with the first's. NULL: samples are chosen at random, which is right unless neighbouring
  // samples overlap.
  shoal_status_t (*split)(void *self, int64_t held_out, shoal_dataset_t **out_rest,
                          shoal_dataset_t **out_held_out);
} shoal_dataset_ops_t;

// Makes a data set of `count` samples from callbacks. `name` is for messages; it, the columns and
// `ops` are copied. On success the data set owns `self` and passes it to ops->free at the end; on
// failure the caller keeps it. INVALID_ARGUMENT: no samples, or columns without a name, with the
// same name or with a bad shape.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_dataset_create(const char *name, int64_t count, const shoal_column_t *columns,
                     int32_t column_count, const shoal_dataset_ops_t *ops, void *self,
                     shoal_allocator_t allocator, shoal_dataset_t **out_dataset);
// NULL is allowed. Parts and loaders that were made of the data set stay valid: they share it.
SHOAL_API void shoal_dataset_free(shoal_dataset_t *dataset);

// What the data set has. Names and columns are borrowed; a column that does not exist is NULL.
SHOAL_API const char *shoal_dataset_name(const shoal_dataset_t *dataset);
SHOAL_API int64_t shoal_dataset_count(const shoal_dataset_t *dataset);
SHOAL_API int32_t shoal_dataset_column_count(const shoal_dataset_t *dataset);
SHOAL_API const shoal_column_t *shoal_dataset_column(const shoal_dataset_t *dataset, int32_t i);
// The number of a column; -1: there is none of that name.
SHOAL_API int32_t shoal_dataset_find_column(const shoal_dataset_t *dataset, const char *name);
// Reads one sample into the caller's memory; out_columns is that of the `read` callback. May be
// called from any thread. INVALID_ARGUMENT: there is no sample of that index, or it is damaged.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_read(shoal_dataset_t *dataset,
                                                           const shoal_sample_t *sample,
                                                           void *const *out_columns);

// Makes two data sets that share no sample, one to train on and one to validate on; the caller
// frees both. A `held_out` below 1 is a share of the samples, otherwise their number. Which samples
// are held out depends on the data alone, not on any seed. Of a text its end is held out, so that
// no window of one part overlaps one of the other. INVALID_ARGUMENT: one part would be empty.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_split(shoal_dataset_t *dataset,
                                                            double held_out,
                                                            shoal_dataset_t **out_rest,
                                                            shoal_dataset_t **out_held_out);
// Makes a data set of part number `part` of `parts` consecutive parts; the caller frees it. Where
// the samples do not divide evenly, the first parts have one sample more, or, with `equal`, the
// samples left over at the end are dropped. Ranks do not need this, because a loader reads only the
// rows it is told to; it is for programs that keep different files on each host. INVALID_ARGUMENT:
// the part would be empty.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_part(shoal_dataset_t *dataset, int64_t part,
                                                           int64_t parts, bool equal,
                                                           shoal_dataset_t **out_part);

// -------------------------------------------------------------------------------------------------
// Data sets from files
// -------------------------------------------------------------------------------------------------

typedef struct shoal_dataset_options {
  shoal_allocator_t allocator;  // zero: the system's
  const char *kind;             // NULL: found out from the files; see shoal_dataset_open

  // The model's inputs, without the dim of rows: samples are made to fit them. May be left out
  // where `length`, or `height`, `width` and `channels`, say the same. Synthetic data needs it.
  const shoal_column_t *inputs;
  int32_t input_count;

  // Text and tokens
  int64_t length;         // T, the tokens of a window; 0: that of the input "ids"
  const char *tokenizer;  // as shoal_tokenizer_open takes it; NULL: bytes are tokens
  int64_t token_bytes;    // bytes of a token in a file without a header: 2 (0 means 2) or 4
  // Images: x is f32 [channels, height, width], pixels in [0, 1]
  bool test;              // MNIST, CIFAR, folders of text or tokens: the test part of the files
  int64_t height, width;  // 0: those of the input "x", else as stored (folders: all images alike)
  int64_t channels;       // image folders: 1 or 3; 0: those of the input "x", else 3
  int64_t resize;         // image folders: the shorter side before cropping; 0: that of the crop;
                          // refused where the crop, less its padding, is larger
  double mean[3], deviation[3];  // per channel: (pixel - mean) / deviation; a deviation of 0 is 1
  // Augmentation of images, for samples that may be varied
  bool flip;         // left to right, with probability 1/2
  bool random_crop;  // crops anywhere instead of in the middle: of images that are larger, by
                     // `resize` or in one side; else it is refused. `pad` does so too
  int64_t pad;       // black pixels around the image before cropping
  // Synthetic data
  uint64_t seed;
  int64_t count;  // samples; 0: 65536
} shoal_dataset_options_t;

// Opens a data set of files, which the caller frees. The kind of the files is options.kind, a
// prefix of the path ("cifar10:FOLDER"), or found out from what the files hold:
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
//   classes    synthetic: x is near the centre of its class y              as the model's x and y
//   random     synthetic: normal numbers, and integers below `classes`     as the model's inputs
//              (files of these names are "./classes" and "./random")
//
// Tokens are read in windows of `length`, whose labels are the ids one position later. Windows
// begin at an offset that changes from epoch to epoch. A list "A.bin,B.bin" of token or text files
// is read as one, as is a folder: its .bin files, else its .txt files, else all of its files if
// every one is a text. Files stay open until the data set is freed. NULL options are the defaults.
// Errors: NOT_FOUND, IO, INVALID_ARGUMENT for files that are damaged or of another kind,
// UNAVAILABLE where this build cannot read images.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_dataset_open(const char *path,
                                                           const shoal_dataset_options_t *options,
                                                           shoal_dataset_t **out_dataset);

// Names the formats of images, "png" and "jpeg", by `index` from 0; NULL after the last.
// *out_available (may be NULL) says whether this build was made with the library that reads it.
SHOAL_API const char *shoal_image_format(int64_t index, bool *out_available);

// -------------------------------------------------------------------------------------------------
// Loaders
// -------------------------------------------------------------------------------------------------

typedef struct shoal_loader shoal_loader_t;

// Rows [begin, end) of a batch.
typedef struct shoal_rows {
  int64_t begin, end;
} shoal_rows_t;

// What happens to the last samples of an epoch when they are fewer than a batch.
typedef enum shoal_last_batch {
  SHOAL_LAST_FILLED,  // the batch is filled up from the next epoch: all batches have the same size,
                      // except the very last one where `epochs` is set
  SHOAL_LAST_SHORT,   // they are a batch of fewer rows, for a graph of that many
  SHOAL_LAST_DROPPED  // they are left out, as PyTorch's drop_last
} shoal_last_batch_t;

typedef struct shoal_loader_options {
  shoal_allocator_t allocator;  // zero: the system's
  int64_t batch;                // rows of a whole batch, over all ranks; required
  uint64_t seed;                // of the order of samples, and of their augmentation
  bool in_order;                // samples are not shuffled
  bool as_stored;               // samples are not augmented: for evaluation
  shoal_last_batch_t last_batch;
  int64_t epochs;  // after so many epochs batches have 0 rows; 0: there is no end
  int64_t cursor;  // where to begin
  int32_t ahead;   // batches that a thread reads ahead; 0: shoal_loader_next reads them itself

  // The model's inputs, without the dim of rows. Columns are found by name and cast; a shape may
  // differ if it has as many elements; integers are checked against `classes`. NULL: all columns of
  // the data set, as they are.
  const shoal_column_t *inputs;
  int32_t input_count;
} shoal_loader_options_t;

typedef struct shoal_batch_column {
  const char *name;
  shoal_dtype_t dtype;
  const void *data;     // [rows, ...] dense: the wanted rows one after the other
  int64_t rows, bytes;  // of `data`
} shoal_batch_column_t;

// A batch. Its columns are borrowed from the loader until the next call of shoal_loader_next,
// _seek, _want or _free.
typedef struct shoal_batch {
  int64_t cursor;       // samples before this batch
  int64_t next_cursor;  // samples before the next one: save it to resume after this batch
  int64_t epoch;        // of the first row
  int64_t rows;         // of the whole batch, on all ranks; 0: the epochs are over
  const shoal_batch_column_t *columns;
  int32_t column_count;
} shoal_batch_t;

// Makes a loader, which the caller frees; one thread at a time may use it. The data set may be
// freed before the loader: they share it. INVALID_ARGUMENT: the options are out of range, or an
// input and its column have different sizes; NOT_FOUND: the data set has no column of an input's
// name.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_create(shoal_dataset_t *dataset,
                                                            const shoal_loader_options_t *options,
                                                            shoal_loader_t **out_loader);
SHOAL_API void shoal_loader_free(shoal_loader_t *loader);  // NULL is allowed

// Gives the next batch; blocks until it is read. After the first batch it does not allocate, except
// in image decoders. An error, of reading ahead too, is returned when its batch is asked for and
// leaves the cursor where it is: the next call tries again.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_next(shoal_loader_t *loader,
                                                          shoal_batch_t *out_batch);
// Goes on at a cursor, one that was saved or any other; batches that were read ahead are dropped.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_seek(shoal_loader_t *loader, int64_t cursor);
SHOAL_API int64_t shoal_loader_cursor(const shoal_loader_t *loader);  // of the next batch
// How many samples an epoch uses, and how many batches (with SHOAL_LAST_FILLED: full ones).
SHOAL_API int64_t shoal_loader_epoch_samples(const shoal_loader_t *loader);
SHOAL_API int64_t shoal_loader_epoch_batches(const shoal_loader_t *loader);

// Restricts what is read: of batches with `batch_rows` rows, only these ranges of rows of column
// `name` (NULL: of every column) are read and handed over, in this order. So a rank reads only what
// it feeds with shoal_feed_part. `rows` is copied. INVALID_ARGUMENT: ranges outside of the batch,
// or that overlap; NOT_FOUND: there is no such column.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_loader_want(shoal_loader_t *loader, const char *name,
                                                          int64_t batch_rows,
                                                          const shoal_rows_t *rows, int64_t count);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_DATA_H_
