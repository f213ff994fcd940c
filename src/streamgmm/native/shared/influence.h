// [E20] A bound on the influence of extreme samples.
#pragma once
#include "winner.h"

namespace {

using namespace streamgmm;

constexpr double extreme = 30;             // deviations below the typical loss from which a sample counts less
constexpr double slow = 1e-3, fast = 1e-2; // rates: `slow` for a growing deviation, `fast` for everything else
constexpr double extreme_at_first = 1000;  // nats per feature: at first, ten units from a mean at the usual scale limit

// Room grows with each sample outside the bound and shrinks with all others, so that rows which keep coming are
// learned: it stays where one sample in 500 is outside.
constexpr double room_growth = 1.02, room_decay = 4e-5;

// Absurd samples and others in turn widen the bound with each of them: it must not leave the range of numbers.
constexpr double most_deviation = 1e60, most_room = 1e30;

constexpr Filter no_filter = {nullptr, nullptr, 0, 0, true};

// A sample and the means that it is compared with.
template <class T> struct SampleAndMeans {
    const T *x, *present; // [features] present: 0 for missing values, or null if there are none
    const T *means;       // [components, stride]
    std::size_t features, stride;
};

// What hardly known features cost a sample under its winner, or under all components that the winner is smoothed over:
// half the squares of deviations, of which `precision` tells the unit. Values that no unit explains are left out.
// IN frame, g, c.
template <class T, class Precision>
inline double cost_of_hardly_known(const Frame<T> &frame, const Filter &g, std::size_t winner,
                                   const SampleAndMeans<T> &c, Precision precision) {
    double sum = 0;
    for (std::size_t d = 0; frame.shift && d < c.features; ++d) {
        const double x = double(c.x[d]), most = explained * double(frame.clip[d]);
        if (frame.active[d] != hardly_known<T> || (c.present && c.present[d] == T(0))) continue;
        if (!(x <= most && x >= -most)) continue;
        auto cost = [&](std::size_t k) {
            const double away = x - double(c.means[k * c.stride + d]);
            return 0.5 * precision(k, d) * away * away;
        };
        if (g.identity) sum += cost(winner);
        for (std::size_t k = 0; k < g.rows * g.columns && !g.identity; ++k)
            sum += filter_weight(g, winner, k) * cost(k);
    }
    return sum;
}

// Weight of a sample in a step, given its loss, of which it is forgiven what hardly known features cost if it is
// extreme otherwise. Bounds the reported loss and updates what is typical.
// INOUT typical (null turns the bound off); INOUT loss, top.
template <class Cost>
inline double influence(double *typical, std::size_t features, double *loss, double *top, Cost cost) {
    if (!typical) return 1;
    if (typical[2] == 0) typical[2] = extreme_at_first * double(features) / extreme;
    const double least = __builtin_sqrt(double(features)); // losses of a Gaussian's own samples spread about this much
    const double room = typical[3] > 0 ? typical[3] : 1;
    const double own = extreme * (typical[2] > least ? typical[2] : least); // without room, or both would feed on each
    const double most = room * own;                                         // other in a burst
    double away = *loss - typical[1];
    if (away < -most) {
        double forgiven = cost();
        forgiven = forgiven < -away ? forgiven : -away; // it may be rounded: no better than typical
        away += forgiven, *loss += forgiven, *top += forgiven;
    }
    if (away < -most) { // whatever their size, it takes hundreds of such samples to become typical
        typical[1] -= fast * most;
        if (typical[2] < most_deviation) typical[2] += slow * (own - typical[2]);
        typical[3] = typical[3] < most_room ? typical[3] * room_growth : typical[3];
        typical[4] += 1;
        *loss = typical[1] - most;
        *top = *top > *loss ? *top : *loss;
        return most / away * (most / away);
    }
    if (room > 1) typical[3] = room - room_decay * (room - 1);
    const double n = ++typical[0], wide = (away < 0 ? -away : away < most ? away : most) - typical[2];
    const double rate = wide > 0 ? slow : fast, early = 1 / (n + 1);
    typical[1] += (1 / n > fast ? 1 / n : fast) * away;
    typical[2] += (early > rate ? early : rate) * wide;
    if (typical[2] > most_deviation) typical[2] = most_deviation;
    return 1;
}

// Adds the weight that components received in a step.  IN received[components], INOUT report.
inline void add_received(const double *received, std::size_t components, const Report &report) {
    for (std::size_t k = 0; k < components; ++k) report.received[k] += received[k];
}

} // namespace
