//! Handlers: calls and returns.
//!
//! A call counts like a back-edge, makes sure that the segment has room for the callee's registers,
//! leaves the return address below the callee's base, and goes on in its code. A return finds in the
//! call instruction before the return address how far to move the base back.

use super::state::{Flow, State};
use super::tables::Entry;
use super::{raise, slow, targets, tick};
use crate::vm::heap::object;

/// Enters a function whose arguments lie at `base + a`.
#[inline(always)]
unsafe fn enter(s: &mut State, a: usize, entry: *const Entry) -> Flow {
    // SAFETY: the state's invariants; the entry is one of the image's. Comparing addresses that may
    // lie beyond the segment is done on integers.
    unsafe {
        s.budget -= 1;
        if s.budget < 0 {
            return Flow::Slow(tick);
        }
        let base = s.base.wrapping_add(a);
        if base.addr() + (*entry).bytes > (*s.cx).limit.addr() {
            (*s.cx).callee = entry;
            return Flow::Slow(slow::grow);
        }
        *base.sub(1) = s.pc.add(1).expose_provenance() as u64;
        s.base = base;
        s.pc = (*entry).code;
        Flow::Next
    }
}

#[inline(always)]
pub(super) unsafe fn Call(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that there is a function of this index.
    unsafe {
        let entry = (*s.cx).entries.add(s.x() as usize);
        enter(s, s.a(), entry)
    }
}

#[inline(always)]
pub(super) unsafe fn CallMethod(s: &mut State) -> Flow {
    // SAFETY: as for `Call`.
    unsafe {
        let a = s.a();
        if s.get(a) == 0 {
            return Flow::Slow(raise::null_receiver);
        }
        let entry = (*s.cx).entries.add(s.x() as usize);
        enter(s, a, entry)
    }
}

#[inline(always)]
pub(super) unsafe fn CallVirtual(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the receiver is null or an instance of a class with this
    // slot; each class has a table of entries.
    unsafe {
        let a = s.a();
        let receiver = s.get(a);
        if receiver == 0 {
            return Flow::Slow(raise::null_receiver);
        }
        let vtable = *(*s.cx).vtables.add(object::type_of(receiver) as usize);
        let entry = *vtable.add(s.b());
        if entry.is_null() {
            return Flow::Slow(targets::object_method);
        }
        enter(s, a, entry)
    }
}

#[inline(always)]
pub(super) unsafe fn CallInterface(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the receiver is null or implements the selector.
    unsafe {
        let a = s.a();
        let receiver = s.get(a);
        if receiver == 0 {
            return Flow::Slow(raise::null_receiver);
        }
        let ty = object::type_of(receiver);
        let selector = s.x();
        let cached = (*s.cx).selector_cache.at(ty, selector);
        if (*cached).ty != ty || (*cached).selector != selector {
            return Flow::Slow(targets::find_selector);
        }
        enter(s, a, (*cached).entry)
    }
}

#[inline(always)]
pub(super) unsafe fn CallFunc(_: &mut State) -> Flow {
    Flow::Slow(targets::call_function_value)
}

#[inline(always)]
pub(super) unsafe fn CallNative(_: &mut State) -> Flow {
    Flow::Slow(super::native::call)
}

/// Leaves the frame: to the instruction behind the call.
#[inline(always)]
unsafe fn leave(s: &mut State) -> Flow {
    // SAFETY: below the base of a frame lies the address behind the call that made it, or that of the
    // stub, which is built like one.
    unsafe {
        let pc = std::ptr::with_exposed_provenance(*s.base.sub(1) as usize);
        s.pc = pc;
        s.base = s.base.sub(usize::from(*pc.cast::<u16>().sub(3)));
        Flow::Next
    }
}

#[inline(always)]
pub(super) unsafe fn Return(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        let word = s.get(s.a());
        *s.base = word;
        leave(s)
    }
}

#[inline(always)]
pub(super) unsafe fn ReturnInt(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        *s.base = u64::from(s.x());
        leave(s)
    }
}

#[inline(always)]
pub(super) unsafe fn ReturnVoid(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe { leave(s) }
}
