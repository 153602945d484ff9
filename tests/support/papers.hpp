#pragma once

namespace tapestry {

// Two fields of papers, each citing its own: 8 papers, 3 words.
inline constexpr const char* content =
    "p1\t1\t0\t0\tmaths\n"
    "p2\t0\t2\t2\tart\n"
    "p3\t1\t1\t0\tmaths\r\n"
    "\n"
    "p4\t0\t0\t1\tart\n"
    "p5\t0\t0\t0\tmaths\n"
    "p6\t0\t0\t1\tart\n"
    "p7\t1\t0\t0\tmaths\n"
    "p8\t0\t1\t1\tart\n";
inline constexpr const char* cites = "p1 p3\np5 p3\np7 p1\np2 p4\np4\tp6\np8 p2\np2 p8\n";

}  // namespace tapestry
