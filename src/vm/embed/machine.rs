//! The virtual machine as a host sees it.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::call::{self, Args};
use super::convert::FromScript;
use super::error::{Error, UnlinkedNative};
use super::native::{Native, ReentrantNative, Registered};
use super::object::Object;
use super::program::Program;
use crate::sched;
use crate::vm::heap::{Config, Heap, object};
use crate::vm::interp::{Entered, Limits, LinkedNative, LoadError, Machine};
use crate::vm::library::io::Arguments;
use crate::vm::library::net::Access;
use crate::vm::library::{decl, streams::Streams};
use crate::vm::module::NativeImport;
use crate::vm::native::{Interrupt, NativeBody, NativeKind};
use crate::vm::tasks::Core;
use crate::vm::types::{FunctionId, Signature, Type, TypeId, TypeTable, known};

/// The least heap that a machine can work with.
const LEAST_HEAP: usize = 64 * 1024;

/// Settings of a [`Vm`], and the native functions it offers.
///
/// ```
/// use pirn::vm::{Vm, compile};
///
/// let program = compile("native long twice(long n); int main() { return twice(21) as int; }")?;
/// let mut vm = Vm::builder()
///     .heap_limit(16 << 20)
///     .call_depth(1000)
///     .fuel(1_000_000)
///     .native("twice", |n: i64| 2 * n)
///     .load(&program)?;
/// assert_eq!(vm.run()?, 42);
/// # Ok::<(), pirn::vm::Error>(())
/// ```
pub struct Builder {
    heap: Config,
    limits: Limits,
    streams: Streams,
    args: Vec<String>,
    network: bool,
    natives: HashMap<String, (Registered, NativeKind)>,
    runtime: sched::Builder,
    carriers: usize,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("heap_limit", &self.heap.limit)
            .field("call_depth", &self.limits.depth)
            .field("fuel", &self.limits.fuel)
            .field("network", &self.network)
            .field("natives", &self.natives.keys())
            .finish_non_exhaustive()
    }
}

impl Builder {
    fn new() -> Builder {
        Builder {
            heap: Config::default(),
            limits: Limits::default(),
            streams: Streams::default(),
            args: Vec::new(),
            network: true,
            natives: HashMap::new(),
            runtime: sched::Builder::new(),
            carriers: 1,
        }
    }

    /// The most bytes that the script's objects may take; without a limit at first. What goes beyond
    /// is an `Exception` in the script. Less than 64 KiB counts as 64 KiB.
    pub fn heap_limit(mut self, bytes: usize) -> Builder {
        self.heap.limit = bytes.max(LEAST_HEAP);
        self
    }

    /// How deep calls of script functions may be nested; 200,000 at first. What goes beyond is an
    /// `Exception` in the script, and so is a nesting that would take more memory than the
    /// [heap](Builder::heap_limit) may, or than 512 MiB; 1 MiB is always there.
    pub fn call_depth(mut self, frames: usize) -> Builder {
        self.limits.depth = frames.max(1);
        self
    }

    /// After so many calls and loop iterations the script ends with [`Error::OutOfFuel`], which it
    /// cannot catch; without a limit at first. [`Vm::set_fuel`] fills up again.
    pub fn fuel(mut self, amount: u64) -> Builder {
        self.limits.fuel = Some(amount);
        self
    }

    /// Collects garbage as often as possible, and makes what was freed unusable: finds native code
    /// and machine code that forgets a reference. Slow.
    pub fn gc_stress(mut self, on: bool) -> Builder {
        self.heap.stress = on;
        self
    }

    /// Where `io.readLine` and the like read; the process's standard input at first.
    pub fn stdin(mut self, source: impl Read + Send + 'static) -> Builder {
        self.streams.set_input(Box::new(source));
        self
    }

    /// Where `io.print` writes, in blocks, flushed whenever a call of the machine ends; the process's
    /// standard output at first.
    pub fn stdout(mut self, sink: impl Write + Send + 'static) -> Builder {
        self.streams.set_output(Box::new(sink), false);
        self
    }

    /// As [`Builder::stdout`], but flushed at the end of each line: for people who watch.
    pub fn stdout_by_lines(mut self, sink: impl Write + Send + 'static) -> Builder {
        self.streams.set_output(Box::new(sink), true);
        self
    }

    /// Where `io.eprint` writes, at once; the process's standard error at first.
    pub fn stderr(mut self, sink: impl Write + Send + 'static) -> Builder {
        self.streams.set_error(Box::new(sink));
        self
    }

    /// What `io.args()` gives to the script; nothing at first.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Builder {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Whether the script may use the network, which is so at first. With `false`, what makes a socket
    /// in the package `net` throws a `NetException` that says so; the script can use sockets that it
    /// gets from the host by native functions.
    ///
    /// ```
    /// use pirn::vm::{Error, Vm, compile};
    ///
    /// let program = compile("import net; int main() { net.listen(\"127.0.0.1:0\"); return 0; }")?;
    /// let refused = Vm::builder().network(false).load(&program)?.run().unwrap_err();
    /// assert!(refused.to_string().contains("does not let it use the network"));
    /// assert_eq!(Vm::builder().load(&program)?.run()?, 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn network(mut self, allowed: bool) -> Builder {
        self.network = allowed;
        self
    }

    /// The settings of the runtime that is made when a script waits or spawns tasks while the host
    /// called it outside one: a seed that shuffles the order of tasks, virtual time.
    ///
    /// ```
    /// use pirn::vm::{Vm, compile};
    ///
    /// let program = compile("import thread; int main() { thread.sleep(3600000); return 7; }")?;
    /// let runtime = pirn::Builder::new().virtual_time(true);
    /// assert_eq!(Vm::builder().runtime(runtime).load(&program)?.run()?, 7);
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    pub fn runtime(mut self, settings: sched::Builder) -> Builder {
        self.runtime = settings;
        self
    }

    /// On how many carriers the threads of a script run at once, in calls of [`Vm::run`], [`Vm::call`] and
    /// [`Vm::call_value`]; 1 at first. The runtime that is made for a call has so many; with 2 or more, a
    /// call within a runtime uses [all that this has](crate::Builder::carriers).
    ///
    /// A thread is begun by any carrier, and stays there. The order in which threads run is not determined
    /// then, and fields that several of them write without a lock may be seen in any order. So there is
    /// neither a seed nor virtual time. Native functions of the host run at once on several carriers.
    ///
    /// One that waits for another thread of the script holds up that thread too, as soon as garbage is to be
    /// collected: such a function is to be [`blocking`](Builder::blocking).
    ///
    /// All the same, one carrier runs a script that has limited [fuel](Builder::fuel), or native functions
    /// which take or give a [`Channel`](super::Channel), and any script while the host keeps a
    /// [`Task`](super::Task) or `Channel` of an earlier call.
    ///
    /// ```
    /// use pirn::vm::{Vm, compile};
    ///
    /// let program = compile(
    ///     "import thread;
    ///      int sum() { int n = 0; for (int i = 1; i <= 1000; i += 1) { n += i; } return n; }
    ///      int main() {
    ///          Future<int> one = thread.spawn(sum);
    ///          Future<int> other = thread.spawn(sum);
    ///          return one.get() + other.get();
    ///      }",
    /// )?;
    /// assert_eq!(Vm::builder().carriers(2).load(&program)?.run()?, 1_001_000);
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the number is 0.
    pub fn carriers(mut self, count: usize) -> Builder {
        assert!(count > 0, "a script needs a carrier");
        self.carriers = count;
        self
    }

    /// Offers a closure as the native function of a qualified name: `now` for one that the root unit
    /// declares, `lib.clock.now` for one of the unit `lib/clock.n`, `lib.clock.Clock.now` for a native
    /// method of a class there, whose first parameter is the object.
    ///
    /// The script declares it: `native long now();`. Parameters and result are those of the closure,
    /// by the [table](crate::vm#values); whether they fit is checked when the program is loaded. The
    /// closure may return a `Result`, whose error is thrown into the script.
    ///
    /// A panic of the closure ends the script, which does not notice, and goes on in the host where
    /// it called the machine; the machine can be used again afterwards.
    pub fn native<M>(self, name: &str, function: impl Native<M>) -> Builder {
        self.register(name, function.registered(), NativeKind::Plain)
    }

    /// As [`Builder::native`], for a closure that may wait, in the operating system or for anybody
    /// else: where the script's other tasks can go on it runs on the
    /// [pool of blocking calls](mod@crate::blocking), else at once.
    ///
    /// ```
    /// use pirn::vm::{Vm, compile};
    ///
    /// let program = compile(
    ///     "import thread;
    ///      native int ask(string question);
    ///      int slow() { return ask(\"how long?\"); }
    ///      int main() { Future<int> a = thread.spawn(slow); Future<int> b = thread.spawn(slow);
    ///          return a.get() + b.get(); }",
    /// )?;
    /// let both = std::sync::Barrier::new(2);
    /// let ask = move |question: &str| {
    ///     both.wait(); // passed only if two calls are under way at once
    ///     question.len() as i32
    /// };
    /// assert_eq!(Vm::builder().blocking("ask", ask).load(&program)?.run()?, 18);
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    pub fn blocking<M>(self, name: &str, function: impl Native<M>) -> Builder {
        self.register(name, function.registered_blocking(), NativeKind::Blocking)
    }

    /// As [`Builder::native`], for a closure that calls back into the script: its first parameter is
    /// a [`&mut Call`](super::Call).
    ///
    /// ```
    /// use pirn::vm::{Call, Error, Object, Vm, compile};
    ///
    /// let program = compile(
    ///     "native int sum(int n, func<int, int> f);
    ///      int square(int n) { return n * n; }
    ///      int main() { return sum(3, square); }",
    /// )?;
    /// let sum = |call: &mut Call<'_>, n: i32, f: Object| -> Result<i32, Error> {
    ///     (1..=n).map(|i| call.call_value::<i32>(&f, (i,))).sum()
    /// };
    /// assert_eq!(Vm::builder().reentrant("sum", sum).load(&program)?.run()?, 14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reentrant<M>(self, name: &str, function: impl ReentrantNative<M>) -> Builder {
        self.register(name, function.registered(), NativeKind::Reentrant)
    }

    fn register(mut self, name: &str, native: Registered, kind: NativeKind) -> Builder {
        self.natives.insert(name.into(), (native, kind));
        self
    }

    /// A machine with these settings and a program.
    ///
    /// # Errors
    ///
    /// [`Error::Unlinked`] if the program needs native functions that were not registered like this;
    /// [`Error::HeapFull`] if its constants do not fit into the heap.
    pub fn load(self, program: &Program) -> Result<Vm, Error> {
        let heap = Heap::new(self.heap).local();
        let mut machine = Machine::new(heap, self.limits).map_err(|_| Error::HeapFull)?;
        machine.states.set(self.streams);
        machine.states.set(Arguments(self.args));
        machine.states.set(Access(self.network));
        let core = Core::new(machine);
        let runtime = match self.carriers {
            1 => self.runtime,
            several => self.runtime.carriers(several),
        };
        let spreads = self.carriers > 1;
        let mut vm = Vm { core, runtime, spreads, natives: self.natives, main: None };
        vm.load(program)?;
        Ok(vm)
    }
}

/// A virtual machine with a program.
///
/// A machine runs in the thread that calls it, and may be moved to another one between calls.
pub struct Vm {
    core: Arc<Core>,
    /// Of the runtime that is made for a script which needs one.
    runtime: sched::Builder,
    /// Whether the threads of a call run on all carriers of its runtime, if they may.
    spreads: bool,
    natives: HashMap<String, (Registered, NativeKind)>,
    /// Of the program that was loaded last.
    main: Option<FunctionId>,
}

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm").field("machine", self.machine()).finish_non_exhaustive()
    }
}

impl Vm {
    /// A machine for a program, without limits and native functions of the host.
    ///
    /// # Errors
    ///
    /// As for [`Builder::load`].
    pub fn new(program: &Program) -> Result<Vm, Error> {
        Vm::builder().load(program)
    }

    /// Settings for a machine.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Loads another program beside those that are there. They share the heap, and nothing else:
    /// classes of the same name are different ones. [`Vm::run`] runs the `main` of the last one;
    /// [`Vm::call`] looks there first.
    ///
    /// # Errors
    ///
    /// As for [`Builder::load`]; the machine goes on as before.
    pub fn load(&mut self, program: &Program) -> Result<(), Error> {
        self.check_natives(program)?;
        let natives = &self.natives;
        let mut resolve =
            |import: &NativeImport, types: &TypeTable| match decl::import(import, types) {
                Some(native) => Some((NativeBody::Function(native.function), native.kind)),
                None => {
                    let (native, kind) = natives.get(&import.name)?;
                    (native.fits)(&import.signature, types)
                        .then(|| (NativeBody::Closure(native.body.clone()), *kind))
                }
            };
        // SAFETY: we own the machine, and no call is under way.
        let machine = unsafe {
            self.core.dissolve_crew()?;
            self.core.machine()
        };
        let loaded = machine.load(program.verified(), &mut resolve);
        let index = loaded.map_err(|error| match error {
            LoadError::TooMany(error) => Error::Invalid(error.to_string()),
            LoadError::UnknownNative(name) => Error::Invalid(format!("unknown native `{name}`")),
            LoadError::HeapFull(_) => Error::HeapFull,
        })?;
        self.main = self.machine().image.program.module(index).main();
        Ok(())
    }

    fn machine(&self) -> &Machine {
        // SAFETY: we own the machine, and no call is under way.
        unsafe { self.core.machine() }
    }

    fn machine_mut(&mut self) -> &mut Machine {
        // SAFETY: as above.
        unsafe { self.core.machine() }
    }

    fn check_natives(&self, program: &Program) -> Result<(), Error> {
        let module = program.module();
        let mut missing = Vec::new();
        for import in &module.natives {
            if decl::import(import, &module.types).is_some() {
                continue;
            }
            let native = self.natives.get(&import.name);
            if native.is_some_and(|(native, _)| (native.fits)(&import.signature, &module.types)) {
                continue;
            }
            let result = module.types.name(import.signature.result);
            missing.push(UnlinkedNative {
                name: import.name.clone(),
                declared: format!("{result} ({})", call::params(&import.signature, &module.types)),
                registered: native.map(|(native, _)| (native.describe)()),
            });
        }
        if missing.is_empty() { Ok(()) } else { Err(Error::Unlinked(missing)) }
    }

    /// Runs the program's `main` and gives its value, 0 for a `main` without one.
    ///
    /// # Errors
    ///
    /// [`Error::NoFunction`] if there is no `main`; else as for [`Vm::call`].
    pub fn run(&mut self) -> Result<i32, Error> {
        let Some(main) = self.main else {
            return call::find::<i32, _>(self.machine(), "main", &()).map(|_| 0);
        };
        let result = self.machine().image.program.source(main).signature.result;
        let word = self.execute(main, &[])?;
        Ok(if result == known::VOID { 0 } else { word as i32 })
    }

    /// Calls a function of the program by its name: `area`, or `lib.geo.area` for one of another unit,
    /// `Point.origin` for a static method. Of overloaded functions the one is called that has exactly
    /// these parameters.
    ///
    /// ```
    /// use pirn::vm::{Vm, compile};
    ///
    /// let program = compile(
    ///     "string repeat(string s, int n) {
    ///          string all;
    ///          for (int i = 0; i < n; i += 1) { all += s; }
    ///          return all;
    ///      }",
    /// )?;
    /// let mut vm = Vm::new(&program)?;
    /// let text: String = vm.call("repeat", ("ab", 3))?;
    /// assert_eq!(text, "ababab");
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoFunction`] if there is none with these parameters and this result;
    /// [`Error::Script`] if it throws; [`Error::Stopped`], [`Error::OutOfFuel`];
    /// [`Error::ForeignObject`] and [`Error::Type`] for an argument that is not what the script needs;
    /// [`Error::HeapFull`] if the arguments do not fit into the heap; [`Error::Io`] if what the script
    /// printed cannot be written.
    ///
    /// # Panics
    ///
    /// If a native function of the host does: the panic goes on here.
    pub fn call<R: FromScript>(&mut self, name: &str, args: impl Args) -> Result<R, Error> {
        let (function, signature) = call::find::<R, _>(self.machine(), name, &args)?;
        let words = call::arguments(self.machine_mut(), &args, &signature)?;
        let word = self.execute(function, &words)?;
        call::take_result(self.machine(), signature.result, word)
    }

    /// Calls a function value that a script gave.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] if the object is no function value with these parameters and this result; else
    /// as for [`Vm::call`].
    ///
    /// # Panics
    ///
    /// As for [`Vm::call`].
    pub fn call_value<R: FromScript>(
        &mut self,
        function: &Object,
        args: impl Args,
    ) -> Result<R, Error> {
        let (value, signature) = call::function_value::<R, _>(self.machine(), function, &args)?;
        let words = call::arguments(self.machine_mut(), &args, &signature)?;
        let entered = self.machine_mut().enter_value(value, words);
        let word = match entered.map_err(|trap| call::error(self.machine(), trap))? {
            Entered::Function(function, words) => self.execute(function, &words)?,
            Entered::Done(word) => word,
        };
        call::take_result(self.machine(), signature.result, word)
    }

    fn execute(&mut self, function: FunctionId, words: &[u64]) -> Result<u64, Error> {
        let spreads = self.may_spread();
        // SAFETY: we own the machine.
        let result = unsafe { call::execute(&self.core, function, words, &self.runtime, spreads) };
        let ended = self.end_of_call();
        let word = result?;
        ended?;
        Ok(word)
    }

    /// Whether the threads of a call may run on several carriers: then nobody comes to the machine from
    /// outside, as who holds a channel or a task does, and nobody counts fuel.
    fn may_spread(&self) -> bool {
        let machine = self.machine();
        let types = &machine.image.program.types;
        let has_channel = |native: &LinkedNative| {
            let Signature { params, result } = &native.signature;
            matches!(native.body, NativeBody::Closure(_))
                && (mentions_channel(types, *result)
                    || params.iter().any(|param| mentions_channel(types, param.ty)))
        };
        self.spreads
            && machine.fuel().is_none()
            && !self.core.has_passes()
            && !machine.natives().iter().any(has_channel)
    }

    /// Says what remains to be said of a call that is over.
    pub(super) fn end_of_call(&mut self) -> Result<(), Error> {
        self.report_failures();
        self.flush()
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn runtime_settings(&self) -> &sched::Builder {
        &self.runtime
    }

    /// Tells about tasks that ended with an exception which nobody has observed.
    fn report_failures(&mut self) {
        // SAFETY: we own the machine, and no call is under way.
        for failure in unsafe { self.core.take_failures() } {
            // SAFETY: nothing was collected since the failures were let go.
            let error = unsafe { call::task_error(self.machine(), &failure) };
            let id = failure.id;
            let mut text =
                format!("Task {id} ended with an exception that nobody observed: {error}");
            for place in &error.backtrace {
                text.push_str(&format!("\n    at {place}"));
            }
            // Where standard error is gone, there is nobody to tell.
            let _ = self.machine_mut().states.get::<Streams>().write_error(text.as_bytes());
        }
    }

    /// A field of an object of a class, public or not.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignObject`]; [`Error::Type`] if the object has no such field or it is of another
    /// type.
    pub fn field<T: FromScript>(&self, object: &Object, name: &str) -> Result<T, Error> {
        let scope = call::scope(self.machine());
        let word = object.word(&self.machine().heap)?;
        let own = object.dynamic_type(word);
        let mismatch = |script: String| Error::Type { rust: T::describe(), script };
        let (Type::Class(class) | Type::Struct(class)) = scope.types.get(own) else {
            return Err(mismatch(scope.types.name(own)));
        };
        let fields = &scope.types.class(*class).fields;
        let Some(slot) = fields.iter().rposition(|field| field.name == name) else {
            return Err(mismatch(format!("{}.{name}, which there is not", scope.types.name(own))));
        };
        let ty = fields[slot].ty;
        if !T::fits(scope.ty(ty)) {
            return Err(mismatch(format!("{} {name}", scope.types.name(ty))));
        }
        // SAFETY: the object is kept alive by its handle, and its class has this field.
        let value = unsafe { object::field(word, slot) };
        call::take_result(self.machine(), ty, value)
    }

    /// The name of an object's class or type: `lib.geo.Point`, `List<int>`. (For its text, pass it to a
    /// function of the script: `string show(Object o) { return o; }`.)
    ///
    /// # Errors
    ///
    /// [`Error::ForeignObject`].
    pub fn type_name(&self, object: &Object) -> Result<String, Error> {
        let word = object.word(&self.machine().heap)?;
        Ok(object.type_name_of(call::scope(self.machine()), word))
    }

    /// A handle to end the script from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle { interrupt: self.machine().interrupt.clone() }
    }

    /// How many calls and loop iterations the script may still do; `None` without a limit.
    pub fn fuel(&self) -> Option<u64> {
        self.machine().fuel()
    }

    /// Sets or lifts that limit.
    pub fn set_fuel(&mut self, amount: Option<u64>) {
        self.machine_mut().set_fuel(amount);
    }

    /// Writes out what the script printed. Every call does so when it ends.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.machine_mut().states.get::<Streams>().output.flush()?)
    }

    /// Collects garbage now.
    pub fn collect(&mut self) {
        self.machine_mut().collect();
    }

    /// What the heap did so far.
    pub fn stats(&self) -> Stats {
        let stats = self.machine().heap.stats();
        Stats {
            collections: stats.collections,
            used: stats.used,
            peak: stats.peak,
            allocated: stats.allocated,
            pause_total: stats.pause_total,
            pause_max: stats.pause_max,
        }
    }
}

/// Whether values of a type are channels, or containers of them.
fn mentions_channel(types: &TypeTable, ty: TypeId) -> bool {
    match *types.get(ty) {
        Type::Channel(_) => true,
        Type::Array(of) | Type::List(of) | Type::Dict(_, of) => mentions_channel(types, of),
        _ => false,
    }
}

/// What the heap of a machine did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How often garbage was collected.
    pub collections: u64,
    /// Bytes in use.
    pub used: usize,
    /// The most bytes that were in use at the begin of a collection, or now.
    pub peak: usize,
    /// Bytes of all objects ever made.
    pub allocated: u64,
    /// How long the script stood still for collections, in all.
    pub pause_total: Duration,
    /// The longest of these pauses.
    pub pause_max: Duration,
}

/// Ends the script of a machine, from any thread; see [`Vm::stop_handle`].
///
/// The script cannot catch it, nor do its `finally` blocks run: its call ends with
/// [`Error::Stopped`] within a thousand loop iterations and calls. A native function that works for
/// long delays that, unless it looks at [`Call::stop_requested`](super::Call::stop_requested).
///
/// ```
/// use pirn::vm::{Error, Vm, compile};
///
/// let program = compile("void spin() { while (true) { try { } catch (Exception e) { } } }")?;
/// let mut vm = Vm::new(&program)?;
/// let stop = vm.stop_handle();
/// std::thread::spawn(move || stop.stop());
/// assert!(matches!(vm.call::<()>("spin", ()), Err(Error::Stopped)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StopHandle {
    interrupt: Arc<Interrupt>,
}

impl StopHandle {
    /// Asks the script to end. If none runs just now, the next call ends at once.
    pub fn stop(&self) {
        self.interrupt.stop();
    }
}
