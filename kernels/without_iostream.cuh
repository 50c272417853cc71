// Keeps <iostream> out of CUB's device-wide headers, which need only the types of <ostream>. Its initialisation of
// the standard streams exists only in GNU's C++ library, and would tie a shared library with these kernels to it.
// Must be included before CUB's headers.
#pragma once

#include <ostream>
#define _GLIBCXX_IOSTREAM 1
