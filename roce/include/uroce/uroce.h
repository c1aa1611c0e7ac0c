// Includes all headers of the library.
#pragma once

#include "uroce/address.h"
#include "uroce/completion_queue.h"
#include "uroce/destination.h"
#include "uroce/endpoint.h"
#include "uroce/engine.h"
#include "uroce/events.h"
#include "uroce/limits.h"
#include "uroce/memory_port.h"
#include "uroce/memory_region.h"
#include "uroce/port.h"
#include "uroce/qp_attributes.h"
#include "uroce/queue_pair.h"
#include "uroce/shared_receive_queue.h"
#include "uroce/time.h"
#include "uroce/types.h"
#include "uroce/work_request.h"
