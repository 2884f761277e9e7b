// A header of the program's own that happens to have the name of an internal one.
#pragma once

constexpr bool kOwnBytes = true;
