// Memory that begins at a whole pack.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "types.h"

namespace streamgmm {

// Returns an aligned pointer into `room` with `count` numbers behind it.
template <class T> T *aligned(std::vector<T> &room, std::size_t count) {
    room.resize(count + pack_bytes / sizeof(T));
    const auto address = reinterpret_cast<std::uintptr_t>(room.data());
    return room.data() + (pack_bytes - address % pack_bytes) % pack_bytes / sizeof(T);
}

// The same, with numbers that are not set; the caller writes them before it reads them.
template <class T> T *aligned(std::unique_ptr<T[]> &room, std::size_t count) {
    room.reset(new T[count + pack_bytes / sizeof(T)]);
    const auto address = reinterpret_cast<std::uintptr_t>(room.get());
    return room.get() + (pack_bytes - address % pack_bytes) % pack_bytes / sizeof(T);
}

} // namespace streamgmm
