// CUB's device-wide headers include <iostream>, of which they use nothing but the types: those come from
// <ostream>. What more it brings, the set-up of the standard streams, exists in GNU's C++ library alone
// and would tie a shared library with these kernels to it. To be included before CUB's.
#pragma once

#include <ostream>
#define _GLIBCXX_IOSTREAM 1
