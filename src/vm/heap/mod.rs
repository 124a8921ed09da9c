//! The heap of a virtual machine: objects, their allocation, and the collector.
//!
//! | file | owns |
//! |---|---|
//! | `object` | the layout of objects; the only access to their words |
//! | `layout` | the table of runtime types |
//! | `size`, `arena` | size classes; memory from the system, mark bits |
//! | `shared` | what all carriers share: blocks, limits, accounts, statistics |
//! | `local` | a carrier's allocation |
//! | `mark`, `collect` | the collector |
//! | `rendezvous` | carriers that stand still while one collects |
//! | `string`, `list`, `dict`, `hash` | the operations of strings and containers |
//! | `handles`, `host` | references held by the host; values of the host held by objects |
//!
//! # Allocation
//!
//! A carrier allocates through its [`LocalHeap`], which has for each size class a run of free cells:
//! taking the next one is an addition and a comparison. When a run is used up, the next one is looked
//! for in the carrier's current block by its mark bits and filled with zeros: that is the sweeping,
//! done when memory is needed and while it comes into the cache anyway. Only for another block is the
//! shared part locked. Objects of more than 8 KiB get units of their own.
//!
//! # Collection
//!
//! Stop the world, mark, sweep lazily; nothing moves. Allocating never collects: passing the threshold
//! sets [`LocalHeap::wants_collection`], and the interpreter collects at its next safepoint. Where the
//! limit would be passed, allocation fails with [`HeapFull`], the interpreter collects and tries once
//! more. So references in native code stay valid until it returns, which the types say too: a
//! [`Str`], [`List`] or [`Dict`] borrows the [`LocalHeap`], and collecting needs it mutably.
//!
//! Marking is a loop over an explicit stack, which large arrays enter in pieces, with a short queue
//! that gives memory time to arrive. A stack that cannot grow is dealt with by looking through the
//! heap for marked objects with unmarked children.
//!
//! # Several carriers
//!
//! Each has its `LocalHeap`, and runs between [`LocalHeap::enter`] and [`LocalHeap::leave`]. Whoever comes
//! first to a safepoint when a collection is due makes it, as soon as the others stand at theirs or have
//! left; it tells the roots of all. Runs and blocks are good until the next collection: a carrier that was
//! away meanwhile drops them when it enters. Operations on containers take the object's lock bit if
//! [`LocalHeap::is_shared`] holds; with one carrier that is a test of a flag.
//!
//! # Accounts
//!
//! Everything counts against the limit: cells as they are handed out to carriers, large objects, and
//! what others report by [`LocalHeap::account`] (stacks of threads, values of the host).

// Not every part of the face is used by the others yet.
#![allow(unused_imports)]

mod arena;
mod atomic;
mod collect;
mod dict;
mod handles;
mod hash;
mod host;
mod layout;
mod list;
mod local;
mod mark;
pub mod object;
mod rendezvous;
mod shared;
mod size;
pub mod string;

pub use collect::Collected;
#[cfg(test)]
mod tests;

pub use dict::Dict;
pub use handles::{Handle, HandleError, HandleTable};
pub use host::{HostValue, WeakRef};
pub use layout::{Element, FIRST, Field, Key, Layout, STRING, TypeIndex, TypeInfo, Types};
pub use list::{Array, List};
pub use local::LocalHeap;
pub use mark::{Roots, Tracer};
pub use shared::{Config, Heap, HeapFull, Stats};
pub use size::{CLASSES, LARGE, LARGEST, SIZES, class_of};
pub use string::Str;
