// Compiles only where Boost.Context is installed and has the interface that
// src/contenders/fcontext.rs declares.

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <type_traits>

namespace detail = boost::context::detail;

static_assert(sizeof(detail::transfer_t) == 2 * sizeof(void *), "context and data");
static_assert(std::is_same<decltype(&detail::jump_fcontext),
                           detail::transfer_t (*)(void *, void *)>::value,
              "jump_fcontext(to, data) -> (from, data)");
static_assert(std::is_same<decltype(&detail::make_fcontext),
                           void *(*)(void *, std::size_t, void (*)(detail::transfer_t))>::value,
              "make_fcontext(top, size, entry) -> context");
