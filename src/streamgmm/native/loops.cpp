// The loops for one vector width: compiled once per width, with -DSTREAMGMM_WIDTH=<bytes>, -DSTREAMGMM_TABLE=<name>,
// -DSTREAMGMM_FOR_X86=<0 or 1> and the flags of that width. A universal binary compiles every width for every
// architecture; a width of another architecture then becomes an empty object.
#include "loops.h"

#if STREAMGMM_FOR_X86 == STREAMGMM_X86
#include "diagonal/em.h"
#include "diagonal/merging.h"
#include "diagonal/natural.h"
#include "diagonal/scoring.h"
#include "diagonal/sgd.h"
#include "full/moments.h"
#include "full/sgd.h"
#include "low_rank/moments.h"
#include "shared/bandwidth.h"
#include "shared/rows.h"

namespace {

template <class T>
constexpr Table<T> table = {
    {refresh_log_dets<T>, merge_rows<T>, rescale<T>, score<T>, sgd_steps<T>, natural_steps<T>, em_steps<T>},
    {first_unfit_row<T>, read_all<T>, rewrite_all<T>},
    {score_full<T>, refresh_full<T>, settle_full<T>, sgd_steps_full<T>, natural_steps_full<T>, em_steps_full<T>},
    {score_low_rank<T>, refresh_low_rank<T>, settle_low_rank<T>, natural_steps_low_rank<T>, em_steps_low_rank<T>},
};

} // namespace

namespace streamgmm {
extern const Loops STREAMGMM_TABLE;
const Loops STREAMGMM_TABLE = {table<float>, table<double>, copy_rows};
} // namespace streamgmm
#endif
