// Shared receive queues that match tags, as far as other files of the shim ask.
#pragma once

#include <infiniband/verbs.h>

namespace uroce::verbs {

/// Checks what a queue of IBV_SRQT_TM is made with beyond what every queue has. Returns 0 or errno.
int check_tag_attributes(const ibv_srq_init_attr_ex& attr);
void fill_tag_caps(ibv_tm_caps& caps);

/// verbs_context.
int post_srq_ops(ibv_srq* srq, ibv_ops_wr* wr, ibv_ops_wr** bad_wr);

}  // namespace uroce::verbs
