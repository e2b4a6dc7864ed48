/* recstore.h: the one header that users of the core include. Declares nothing itself. */
#ifndef RECSTORE_H
#define RECSTORE_H

#include "rs_base.h"
#include "rs_status.h"
#include "rs_bytes.h"
#include "rs_buffer.h"
#include "rs_crc.h"
#include "rs_permute.h"
#include "rs_hash.h"
#include "rs_format.h"
#include "rs_any.h"
#include "rs_schema.h"
#include "rs_header.h"
#include "rs_offsets.h"
#include "rs_keys.h"
#include "rs_scan.h"
#include "rs_infer.h"
#include "rs_encode.h"
#include "rs_decode.h"
#include "rs_path.h"
#include "rs_column.h"
#include "rs_route.h"
#include "rs_utf8.h"
#include "rs_os.h"
#include "rs_segment.h"
#include "rs_store.h"
#include "rs_piece.h"
#include "rs_gather.h"
#include "rs_mapping.h"
#include "rs_verify.h"

#endif
