// Memory that begins at a whole pack.
#pragma once
#include <cstdint>
#include <vector>

#include "types.h"

namespace streamgmm {

// Returns an aligned pointer into `room` with `count` numbers behind it.
template <class T> T *aligned(std::vector<T> &room, std::size_t count) {
    room.resize(count + pack_bytes / sizeof(T));
    const auto address = reinterpret_cast<std::uintptr_t>(room.data());
    return room.data() + (pack_bytes - address % pack_bytes) % pack_bytes / sizeof(T);
}

} // namespace streamgmm
