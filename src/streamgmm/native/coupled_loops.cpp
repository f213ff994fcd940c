// The loops of kinds that couple features, for one vector width; see loops.cpp.
#include "loops.h"

#if STREAMGMM_FOR_X86 == STREAMGMM_X86
#include "full/moments.h"
#include "full/sgd.h"
#include "low_rank/moments.h"

namespace {

template <class T>
constexpr CoupledTable<T> table = {
    {score_full<T>, refresh_full<T>, settle_full<T>, sgd_steps_full<T>, natural_steps_full<T>, em_steps_full<T>},
    {score_low_rank<T>, refresh_low_rank<T>, settle_low_rank<T>, natural_steps_low_rank<T>, em_steps_low_rank<T>},
};

} // namespace

namespace streamgmm {
extern const CoupledLoops STREAMGMM_COUPLED;
const CoupledLoops STREAMGMM_COUPLED = {table<float>, table<double>};
} // namespace streamgmm
#endif
