// The loops for one vector width: compiled once per width, with -DSTREAMGMM_WIDTH=<bytes>, -DSTREAMGMM_TABLE=<name>,
// -DSTREAMGMM_FOR_X86=<0 or 1> and the flags of that width. A universal binary compiles every width for every
// architecture; a width of another architecture then becomes an empty object.
#include "loops.h"

#if STREAMGMM_FOR_X86 == STREAMGMM_X86
#include "diagonal/answer.h"
#include "diagonal/em.h"
#include "diagonal/merging.h"
#include "diagonal/natural.h"
#include "diagonal/scoring.h"
#include "diagonal/sgd.h"
#include "shared/bandwidth.h"
#include "shared/responsibilities.h"
#include "shared/rows.h"

namespace {

template <class T>
constexpr Table<T> table = {
    {refresh_log_dets<T>, merge_rows<T>, rescale<T>, score<T>, answer<T>, sgd_steps<T>, natural_steps<T>, em_steps<T>},
    {first_unfit_row<T>, read_all<T>, rewrite_all<T>},
};

} // namespace

namespace streamgmm {
extern const Loops STREAMGMM_TABLE;
const Loops STREAMGMM_TABLE = {table<float>, table<double>, copy_rows, to_responsibilities};
} // namespace streamgmm
#endif
