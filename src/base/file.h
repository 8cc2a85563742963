// Files and folders, beyond what shoal/base.h offers. Errors are NOT_FOUND or IO and name the file.
#ifndef SHOAL_BASE_FILE_H_
#define SHOAL_BASE_FILE_H_

#include "base/arena.h"

// Makes the folder and its parents; an existing one is fine.
SHOAL_MUST_USE shoal_status_t shoal_file_make_folder(const char *path);

#endif  // SHOAL_BASE_FILE_H_
