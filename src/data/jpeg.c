// JPEG, through libjpeg. Its errors come as a jump out of its functions: everything that lives on
// behind the jump is in `job_t`, and the jump ends in one function that only frees and returns.
#include "data/decode.h"

#ifdef SHOAL_HAS_JPEG
// clang-format off
#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "base/status.h"

enum { MOST_SCANS = 500 };

typedef struct job {
  struct jpeg_decompress_struct decompress;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool truncated;
} job_t;

static void fail(j_common_ptr decompress) {
  job_t *job = decompress->client_data;
  decompress->err->format_message(decompress, job->message);
  longjmp(job->jump, 1);
}

static void be_silent(j_common_ptr decompress) {
  (void)decompress;
}

// Warnings: libjpeg makes up what a truncated file lacks. Others are harmless.
static void hear(j_common_ptr decompress, int level) {
  job_t *job = decompress->client_data;
  const int code = decompress->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) job->truncated = true;
}

// A small file can ask for the work of a large one, a scan at a time.
static void watch(j_common_ptr decompress) {
  if (decompress->is_decompressor && ((j_decompress_ptr)decompress)->input_scan_number > MOST_SCANS)
    ERREXIT(decompress, JERR_BAD_PROGRESSION);
}

static shoal_status_t decode(job_t *job, const char *name, const void *data, int64_t size,
                             int64_t channels, shoal_arena_t *arena, shoal_image_t *out_image) {
  struct jpeg_decompress_struct *decompress = &job->decompress;
  if (setjmp(job->jump)) return shoal_image_damaged(name, job->message);
  jpeg_create_decompress(decompress);
  decompress->progress = &job->progress;
  jpeg_mem_src(decompress, data, (unsigned long)size);
  jpeg_read_header(decompress, TRUE);
  SHOAL_RETURN_IF_ERROR(shoal_image_reserve(name, channels, decompress->image_height,
                                            decompress->image_width, arena, out_image));
  decompress->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(decompress);
  while (decompress->output_scanline < decompress->output_height) {
    JSAMPROW row = (JSAMPROW)out_image->pixels + decompress->output_scanline * out_image->row_step;
    jpeg_read_scanlines(decompress, &row, 1);
  }
  jpeg_finish_decompress(decompress);
  return job->truncated ? shoal_image_damaged(name, "it ends too early") : NULL;
}

const bool shoal_has_jpeg = true;

shoal_status_t shoal_jpeg_decode(const char *name, const void *data, int64_t size, int64_t channels,
                                 shoal_arena_t *arena, shoal_image_t *out_image) {
  job_t job = {.progress.progress_monitor = watch};
  job.decompress.err = jpeg_std_error(&job.errors);
  job.decompress.client_data = &job;
  job.errors.error_exit = fail;
  job.errors.output_message = be_silent;
  job.errors.emit_message = hear;
  shoal_status_t status = decode(&job, name, data, size, channels, arena, out_image);
  jpeg_destroy_decompress(&job.decompress);
  return status;
}
#else
const bool shoal_has_jpeg = false;

shoal_status_t shoal_jpeg_decode(const char *name, const void *data, int64_t size, int64_t channels,
                                 shoal_arena_t *arena, shoal_image_t *out_image) {
  (void)data, (void)size, (void)channels, (void)arena, (void)out_image;
  return shoal_image_unavailable(name, "libjpeg");
}
#endif
