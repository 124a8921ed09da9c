//! Objects of a script that the host holds, and values of the host that scripts hold.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::convert::{Failure, FromScript, Scope, ScriptType, ToScript, Value};
use super::error::Error;
use crate::vm::heap::{Handle, HandleTable, HostValue, LocalHeap, object};
use crate::vm::link;
use crate::vm::native::Word;
use crate::vm::types::{Opaque, Type, TypeId, known};

/// A reference to an object of a script: it stays alive as long as this, or a clone of it.
///
/// What can be done with it needs the machine: pass it to a call, or see
/// [`Vm::call_value`](super::Vm::call_value), [`Vm::field`](super::Vm::field) and
/// [`Vm::type_name`](super::Vm::type_name). With another machine, or when its own is gone, all of these are
/// errors.
///
/// ```
/// use pirn::vm::{Object, Vm, compile};
///
/// let program = compile(
///     "class Counter { public int n; }
///      Counter make() { return Counter(); }
///      int up(Counter c) { c.n += 1; return c.n; }",
/// )?;
/// let mut vm = Vm::new(&program)?;
/// let counter = vm.call::<Object>("make", ())?;
/// vm.call::<i32>("up", (&counter,))?;
/// assert_eq!(vm.call::<i32>("up", (&counter,))?, 2);
/// assert_eq!(vm.field::<i32>(&counter, "n")?, 2);
/// # Ok::<(), pirn::vm::Error>(())
/// ```
#[derive(Clone)]
pub struct Object {
    root: Arc<Root>,
}

/// Ends the handle with the last clone.
struct Root {
    table: Arc<HandleTable>,
    handle: Handle,
    /// The type that the place had which the object was taken from: function values do not know
    /// their own.
    ty: TypeId,
}

impl Drop for Root {
    fn drop(&mut self) {
        // Nobody else releases it.
        let _ = self.table.release(self.handle);
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&self.root.handle).finish()
    }
}

impl Object {
    /// # Safety
    ///
    /// The word is the address of an object of the heap that lives, taken from a place of the type.
    pub(super) unsafe fn new(heap: &LocalHeap, ty: TypeId, word: Word) -> Object {
        let table = heap.heap().handles().clone();
        // SAFETY: the caller's contract.
        let handle = unsafe { table.insert(word) };
        Object { root: Arc::new(Root { table, handle, ty }) }
    }

    /// The object's address.
    pub(super) fn word(&self, heap: &LocalHeap) -> Result<Word, Error> {
        heap.heap().handles().get(self.root.handle).map_err(|_| Error::ForeignObject)
    }

    /// The type of the object itself, where it knows it.
    pub(super) fn dynamic_type(&self, word: Word) -> TypeId {
        // SAFETY: the handle keeps the object alive.
        let header = unsafe { object::header(word) };
        match header.kind() {
            object::Kind::Function => self.root.ty,
            _ => link::TypeIndex(header.ty()).id().unwrap_or(self.root.ty),
        }
    }

    /// Whether a place of a type can hold the object.
    pub(super) fn is_a(&self, scope: Scope<'_>, word: Word, wanted: TypeId) -> bool {
        let own = self.dynamic_type(word);
        let types = scope.types;
        own == wanted
            || match (types.get(own), types.get(wanted)) {
                (&Type::Class(class), &Type::Class(base)) => types.derives(class, base),
                (&Type::Class(class), Type::Interface(interface)) => {
                    let mut next = Some(class);
                    std::iter::from_fn(|| {
                        let class = types.class(next?);
                        next = class.base;
                        Some(class)
                    })
                    .any(|class| class.interfaces.contains(interface))
                }
                // What can become an `Object` in a script is one already if its place said so.
                (Type::Class(_) | Type::Opaque(_), Type::Object) => true,
                (_, Type::Object) => matches!(types.get(self.root.ty), Type::Object),
                _ => false,
            }
    }

    pub(super) fn type_name_of(&self, scope: Scope<'_>, word: Word) -> String {
        scope.types.name(self.dynamic_type(word))
    }
}

/// A value of the host that a script holds as an `Object`, without looking into it.
///
/// The value is dropped when the collector has found that no script holds it any more and the host
/// has no `Host` of it either; that happens at a point where the script stands still, on the thread
/// that runs the machine. What is left is dropped with the machine. A panic of its `Drop` is reported
/// as any panic and goes no further.
///
/// A native function takes the value back by a parameter of this type; an `Object` that is something
/// else becomes an exception there.
///
/// ```
/// use std::sync::Mutex;
/// use pirn::vm::{Host, Vm, compile};
///
/// let program = compile(
///     "native Object open();
///      native int next(Object counter);
///      int main() { Object c = open(); next(c); return next(c); }",
/// )?;
/// let mut vm = Vm::builder()
///     .native("open", || Host::new(Mutex::new(40)))
///     .native("next", |counter: Host<Mutex<i32>>| {
///         let mut n = counter.lock().unwrap();
///         *n += 1;
///         *n
///     })
///     .load(&program)?;
/// assert_eq!(vm.run()?, 42);
/// # Ok::<(), pirn::vm::Error>(())
/// ```
pub struct Host<T> {
    value: Arc<T>,
}

impl<T> Host<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Host<T> {
        Host { value: Arc::new(value) }
    }

    /// Shares a value with the host.
    pub fn from_arc(value: Arc<T>) -> Host<T> {
        Host { value }
    }

    /// The value, shared.
    pub fn into_arc(self) -> Arc<T> {
        self.value
    }
}

impl<T> Clone for Host<T> {
    fn clone(&self) -> Host<T> {
        Host { value: self.value.clone() }
    }
}

impl<T> Deref for Host<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Host<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.value).finish()
    }
}

/// How the heap holds it.
struct Held<T>(Option<Arc<T>>);

impl<T: Send + Sync + 'static> HostValue for Held<T> {}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // The collector's caller is the interpreter, which no panic may cross.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

impl<T: Any> Value for Host<T> {
    fn describe() -> String {
        format!("Host<{}>", std::any::type_name::<T>())
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        matches!(ty.types.get(ty.id), Type::Object)
    }
}

impl<T: Any + Send + Sync> ToScript for Host<T> {
    fn to_word(&self, scope: Scope<'_>, _: TypeId) -> Result<Word, Failure> {
        let ty = Type::Opaque(Opaque::Host);
        let ty = scope.types.find(&ty).ok_or_else(|| scope.mismatch::<Host<T>>(known::OBJECT))?;
        Ok(scope.heap.new_host(scope.index(ty), Arc::new(Held(Some(self.value.clone()))))?)
    }
}

impl<T: Any + Send + Sync> FromScript for Host<T> {
    fn from_word(scope: Scope<'_>, _: TypeId, word: Word) -> Result<Host<T>, Failure> {
        let mismatch = |script: &str| {
            let rust = Host::<T>::describe();
            Failure::Error(Error::Type { rust, script: script.into() })
        };
        if word == 0 {
            return Err(mismatch("null"));
        }
        // SAFETY: the word is of the type `Object` and not null, so it is a living object.
        let value = unsafe { scope.heap.host_value(word) };
        let value = value.ok_or_else(|| mismatch("another Object"))?;
        let any: &dyn Any = &*value;
        match any.downcast_ref::<Held<T>>().and_then(|held| held.0.clone()) {
            Some(value) => Ok(Host { value }),
            None => Err(mismatch("another value of the host")),
        }
    }
}
