/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before libxqa.so, this xqaDecode computes the right result and then spoils one element of
 * it. A check that still passes checks nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "xqa/xqa.h"

typedef xqaStatus_t (*Decode)(xqaVariant_t, const xqaDeviceInfo_t*, const xqaDecodeShape_t*,
                              const xqaDecodeArgs_t*, xqaStream_t, xqaDiagnostic_t*);

xqaStatus_t xqaDecode(xqaVariant_t variant, const xqaDeviceInfo_t* device,
                      const xqaDecodeShape_t* shape, const xqaDecodeArgs_t* args,
                      xqaStream_t stream, xqaDiagnostic_t* diagnostic) {
  void* symbol = dlsym(RTLD_NEXT, "xqaDecode");
  Decode decode;
  memcpy(&decode, &symbol, sizeof(decode)); /* ISO C has no conversion from object to function */
  xqaStatus_t status = decode(variant, device, shape, args, stream, diagnostic);
  if (status == XQA_STATUS_SUCCESS) {
    ((unsigned char*)args->out)[1] ^= 0x80; /* the sign of the first 16-bit element */
  }
  return status;
}
