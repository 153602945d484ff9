#pragma once

// The sanitizer that a source is compiled with, which GCC and Clang tell in different ways.
#ifdef __has_feature
#define TAPESTRY_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TAPESTRY_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TAPESTRY_HAS_FEATURE(address_sanitizer)
#define TAPESTRY_ADDRESS_SANITIZER 1
#else
#define TAPESTRY_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || TAPESTRY_HAS_FEATURE(thread_sanitizer)
#define TAPESTRY_THREAD_SANITIZER 1
#else
#define TAPESTRY_THREAD_SANITIZER 0
#endif

#undef TAPESTRY_HAS_FEATURE
