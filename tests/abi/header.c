/* SPDX-License-Identifier: Apache-2.0
 * The public header alone and twice, in C99 and C++17 (CMakeLists.txt runs every compiler it finds
 * over this). */
#include "xqa/xqa.h"

int xqaHeaderTest(const xqaApi_t* api);

int xqaHeaderTest(const xqaApi_t* api) {
  return api->struct_size == sizeof(xqaApi_t) && api->version == XQA_VERSION;
}
