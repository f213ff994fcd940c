#include "dispatch.h"

#include <stdexcept>

namespace streamgmm {

#if STREAMGMM_X86
extern const Loops loops_v1, loops_v3, loops_v4;
extern const CoupledLoops coupled_loops_v1, coupled_loops_v3, coupled_loops_v4;
#else
extern const Loops loops_plain;
extern const CoupledLoops coupled_loops_plain;
#endif

namespace {

struct Width {
    const char *name;
    const Loops *loops;
    const CoupledLoops *coupled;
    bool runs_here;
};

const std::vector<Width> &all_widths() {
#if STREAMGMM_X86
    // Feature by feature: few compilers know the levels by name. On machines that exist, these tell them apart.
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    static const std::vector<Width> found = {
        {"x86-64", &loops_v1, &coupled_loops_v1, true},
        {"x86-64-v3", &loops_v3, &coupled_loops_v3, v3},
        {"x86-64-v4", &loops_v4, &coupled_loops_v4, v4},
    };
#else
    static const std::vector<Width> found = {{"plain", &loops_plain, &coupled_loops_plain, true}};
#endif
    return found;
}

const Width *widest() {
    const Width *best = nullptr;
    for (const Width &w : all_widths())
        if (w.runs_here) best = &w;
    return best;
}

const Width *current = widest();

} // namespace

std::vector<std::string> widths() {
    std::vector<std::string> names;
    for (const Width &w : all_widths())
        if (w.runs_here) names.push_back(w.name);
    return names;
}

std::string width() { return current->name; }

void use_width(const std::string &name) {
    for (const Width &w : all_widths())
        if (w.runs_here && name == w.name) {
            current = &w;
            return;
        }
    throw std::invalid_argument("no vector width '" + name + "' on this machine; see widths()");
}

const Loops &loops() { return *current->loops; }
const CoupledLoops &coupled_loops() { return *current->coupled; }

} // namespace streamgmm
