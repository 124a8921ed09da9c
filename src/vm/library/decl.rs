//! The table of native functions: signature and kind of each.
//!
//! This is the only place that lists them. [`lookup`] finds them by home (a package or a built-in
//! type) and name, for the checker; [`import`] by the name and signature that a module imports, for
//! the verifier and the linker. The table is parsed when it is first used.

use std::sync::LazyLock;

use super::lock::semaphore;
use super::pattern::{Declaration, home_of};
use super::thread::atomic;
use super::{channel, dict, event, fs, io, list, lock, math, net, select, text, thread};
use crate::vm::module::NativeImport;
use crate::vm::native::{NativeFn, NativeKind};
use crate::vm::types::{Type, TypeTable};

/// The packages that exist without a file. A script imports them as any other.
pub const PACKAGES: &[&str] = &["fs", "io", "math", "thread"];

/// The packages that are written in the language and have native functions, which they alone declare.
const BEHIND_SCRIPTS: &[&str] = &["event", "net"];

/// Whether a qualified name is that of a native function which a package of the library declares.
pub fn is_behind_script(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(home, name)| {
        BEHIND_SCRIPTS.contains(&home) && !lookup(home, name).is_empty()
    })
}

/// Whether a function, by its qualified name, touches nothing but its arguments and objects that guard
/// themselves: nothing that the machine keeps, and no queue of threads.
pub fn touches_arguments_only(name: &str) -> bool {
    const KEEP_STATE: [&str; 3] = ["random", "randomi", "srand"];
    name.rsplit_once('.').is_some_and(|(home, name)| match home {
        "Array" | "List" | "Dict" | "string" => true,
        "math" => !KEEP_STATE.contains(&name),
        _ => false,
    })
}

/// A native function.
#[derive(Debug)]
pub struct Native {
    pub declaration: Declaration,
    pub kind: NativeKind,
    pub function: NativeFn,
}

impl Native {
    /// As modules import it: `io.print`, `List.add`, `Array.length`, `Channel.new`.
    pub fn import_name(&self) -> String {
        format!("{}.{}", self.declaration.home_name, self.declaration.name)
    }
}

/// All functions of a home and name: overloads, in the order of the table. The home is a package,
/// or what [`home_of_type`] says of a type.
pub fn lookup(home: &str, name: &str) -> &'static [Native] {
    let key = |native: &Native| (native.declaration.home_name, native.declaration.name);
    let first = NATIVES.partition_point(|native| key(native) < (home, name));
    let count = NATIVES[first..].partition_point(|native| key(native) == (home, name));
    &NATIVES[first..first + count]
}

/// All functions of a package or type, sorted by name: for messages that suggest one.
pub fn members(home: &str) -> impl Iterator<Item = &'static Native> {
    NATIVES.iter().filter(move |native| native.declaration.home_name == home)
}

/// The home of the methods of a type: `List`, `Array`, `string`; `None` for types without native
/// methods.
pub fn home_of_type(ty: &Type) -> Option<&'static str> {
    home_of(ty)
}

/// The function that a module means by an import, if its signature is an instance of one.
pub fn import(import: &NativeImport, types: &TypeTable) -> Option<&'static Native> {
    let (home, name) = import.name.rsplit_once('.')?;
    let natives = lookup(home, name);
    natives.iter().find(|native| native.declaration.matches(&import.signature, types).is_some())
}

/// The table, parsed, sorted by home and name; overloads keep their order.
static NATIVES: LazyLock<Vec<Native>> = LazyLock::new(|| {
    let packages = [PACKAGES, BEHIND_SCRIPTS].concat();
    let parse = |&(text, kind, function): &(&'static str, NativeKind, NativeFn)| Native {
        declaration: Declaration::parse(text, &packages),
        kind,
        function,
    };
    let mut natives: Vec<Native> = TABLE.iter().map(parse).collect();
    natives.sort_by_key(|native| (native.declaration.home_name, native.declaration.name));
    natives
});

use NativeKind::{Blocking, GivesWay, Plain, Reentrant};

#[rustfmt::skip]
const TABLE: &[(&str, NativeKind, NativeFn)] = &[
    // Arrays and lists.
    ("T[].length() -> int", Plain, list::array_length),
    ("T[].toString() -> string", Reentrant, list::to_string),
    ("List<T>.add(T)", Plain, list::add),
    ("List<T>.clear()", Plain, list::clear),
    ("List<T>.contains(T) -> bool", Plain, list::contains),
    ("List<T>.get(int) -> T", Plain, list::get),
    ("List<T>.indexOf(T) -> int", Plain, list::index_of),
    ("List<T>.length() -> int", Plain, list::length),
    ("List<T>.removeAt(int)", Plain, list::remove_at),
    ("List<T>.set(int, T)", Plain, list::set),
    ("List<T>.toString() -> string", Reentrant, list::to_string),

    // Dictionaries.
    ("Dict<K, V>.clear()", Plain, dict::clear),
    ("Dict<K, V>.containsKey(K) -> bool", Plain, dict::contains_key),
    ("Dict<K, V>.count() -> int", Plain, dict::count),
    ("Dict<K, V>.get(K) -> V", Plain, dict::get),
    ("Dict<K, V>.keys() -> List<K>", Plain, dict::keys),
    ("Dict<K, V>.remove(K) -> int", Plain, dict::remove),
    ("Dict<K, V>.set(K, V)", Plain, dict::set),
    ("Dict<K, V>.toString() -> string", Reentrant, list::to_string),

    // Strings.
    ("string.charAt(int) -> char", Plain, text::char_at),
    ("string.charCount() -> int", Plain, text::char_count),
    ("string.contains(string) -> bool", Plain, text::contains),
    ("string.endsWith(string) -> bool", Plain, text::ends_with),
    ("string.equals(string) -> int", Plain, text::equals),
    ("string.getHashCode() -> int", Plain, text::get_hash_code),
    ("string.indexOf(string) -> int", Plain, text::index_of),
    ("string.length() -> int", Plain, text::length),
    ("string.replace(string, string) -> string", Plain, text::replace),
    ("string.split(string) -> List<string>", Plain, text::split),
    ("string.startsWith(string) -> bool", Plain, text::starts_with),
    ("string.substring(int) -> string", Plain, text::substring_from),
    ("string.substring(int, int) -> string", Plain, text::substring_range),
    ("string.toBool() -> bool", Plain, text::to_bool),
    ("string.toChar() -> char", Plain, text::to_char),
    ("string.toDouble() -> double", Plain, text::to_double),
    ("string.toFloat() -> float", Plain, text::to_float),
    ("string.toInt() -> int", Plain, text::to_int),
    ("string.toLong() -> long", Plain, text::to_long),
    ("string.toLower() -> string", Plain, text::to_lower),
    ("string.toString() -> string", Plain, text::to_string),
    ("string.toUpper() -> string", Plain, text::to_upper),
    ("string.trim() -> string", Plain, text::trim),

    // Input and output.
    ("io.appendFile(string, string)", Blocking, fs::append_file),
    ("io.args() -> List<string>", Plain, io::args),
    ("io.eprint(text)", Plain, io::eprint),
    ("io.hasInput() -> bool", Blocking, io::has_input),
    ("io.print(text)", Plain, io::print),
    ("io.readBool() -> bool", Blocking, io::read_bool),
    ("io.readChar() -> char", Blocking, io::read_char),
    ("io.readDouble() -> double", Blocking, io::read_double),
    ("io.readFile(string) -> string", Blocking, fs::read_file),
    ("io.readFloat() -> float", Blocking, io::read_float),
    ("io.readInt() -> int", Blocking, io::read_int),
    ("io.readLine() -> string", Blocking, io::read_line),
    ("io.readLong() -> long", Blocking, io::read_long),
    ("io.readToken() -> string", Blocking, io::read_token),
    ("io.residentBytes() -> long", Plain, io::resident_bytes),
    ("io.write(text)", Plain, io::write),
    ("io.writeFile(string, string)", Blocking, fs::write_file),

    // The scheduler's loop, for `scripts/event.n`.
    ("event.rawBusy() -> bool", Plain, event::busy),
    ("event.rawClock() -> long", Plain, event::clock),
    ("event.rawLoop(Object) -> Object", Plain, event::default_loop),
    ("event.rawSleepUntil(long)", Plain, event::sleep_until),

    // Files.
    ("fs.exists(string) -> bool", Blocking, fs::exists),
    ("fs.isDirectory(string) -> bool", Blocking, fs::is_directory),
    ("fs.isFile(string) -> bool", Blocking, fs::is_file),
    ("fs.join(string, string) -> string", Plain, fs::join),
    ("fs.listFiles(string) -> List<string>", Blocking, fs::list_files),
    ("fs.makeDirs(string)", Blocking, fs::make_dirs),
    ("fs.remove(string)", Blocking, fs::remove),
    ("fs.size(string) -> long", Blocking, fs::size),

    // Sockets, for `scripts/net.n`.
    ("net.rawAccept(Object, long, out int) -> Object", Plain, net::accept),
    ("net.rawBind(string, out int) -> Object", Plain, net::bind),
    ("net.rawBindPath(string, out int) -> Object", Plain, net::bind_path),
    ("net.rawBytes(string, ubyte[], int)", Plain, net::bytes_into),
    ("net.rawClose(Object)", Plain, net::close),
    ("net.rawConnect(string, out int) -> Object", Plain, net::connect),
    ("net.rawConnectPath(string, out int) -> Object", Blocking, net::connect_path),
    ("net.rawConnected(Object, long) -> int", Plain, net::connected),
    ("net.rawDeadline(int) -> long", Plain, net::deadline),
    ("net.rawKind(int) -> int", Plain, net::kind),
    ("net.rawLocal(Object, out int) -> string", Plain, net::local),
    ("net.rawMessage(int) -> string", Plain, net::message),
    ("net.rawPeer(Object, out int) -> string", Plain, net::peer),
    ("net.rawRead(Object, int, long, out int) -> string", Plain, net::read),
    ("net.rawReadLine(Object, int, long, out int) -> string", Plain, net::read_line),
    ("net.rawReady(Object, bool, long) -> int", Plain, net::ready),
    ("net.rawResolve(string) -> List<string>", Blocking, net::resolve),
    ("net.rawShutdown(Object) -> int", Plain, net::shutdown),
    ("net.rawString(ubyte[], int, int) -> string", Plain, net::string_of),
    ("net.rawWrite(Object, string, int, long) -> int", Plain, net::write),

    // Mathematics.
    ("math.absf(double) -> double", Plain, math::absf),
    ("math.absi(int) -> int", Plain, math::absi),
    ("math.acos(double) -> double", Plain, math::acos),
    ("math.asin(double) -> double", Plain, math::asin),
    ("math.atan(double) -> double", Plain, math::atan),
    ("math.atan2(double, double) -> double", Plain, math::atan2),
    ("math.ceil(double) -> long", Plain, math::ceil),
    ("math.clampf(double, double, double) -> double", Plain, math::clampf),
    ("math.clampi(int, int, int) -> int", Plain, math::clampi),
    ("math.cos(double) -> double", Plain, math::cos),
    ("math.exp(double) -> double", Plain, math::exp),
    ("math.floor(double) -> long", Plain, math::floor),
    ("math.log(double) -> double", Plain, math::log),
    ("math.maxf(double, double) -> double", Plain, math::maxf),
    ("math.maxi(int, int) -> int", Plain, math::maxi),
    ("math.minf(double, double) -> double", Plain, math::minf),
    ("math.mini(int, int) -> int", Plain, math::mini),
    ("math.pow(double, double) -> double", Plain, math::pow),
    ("math.random() -> double", Plain, math::random),
    ("math.randomi(int, int) -> int", Plain, math::randomi),
    ("math.round(double) -> long", Plain, math::round),
    ("math.sin(double) -> double", Plain, math::sin),
    ("math.sqrt(double) -> double", Plain, math::sqrt),
    ("math.srand(int)", Plain, math::srand),
    ("math.tan(double) -> double", Plain, math::tan),

    // Tasks.
    ("thread.join(Future<T>)", Plain, thread::join),
    ("thread.join(Thread)", Plain, thread::join),
    ("thread.sleep(int)", Plain, thread::sleep),
    ("thread.sleep(long)", Plain, thread::sleep_long),
    ("thread.spawn(func<void>) -> Thread", Plain, thread::spawn),
    ("thread.spawn(func<T>) -> Future<T>", Plain, thread::spawn),
    ("thread.yield()", GivesWay, thread::give_way),
    ("Thread.cancel()", Plain, thread::cancel),
    ("Thread.id() -> int", Plain, thread::id),
    ("Thread.isDone() -> bool", Plain, thread::is_done),
    ("Future<T>.cancel()", Plain, thread::cancel),
    ("Future<T>.get() -> T", Plain, thread::get),
    ("Future<T>.getTimeout(int) -> T", Plain, thread::get_timeout),
    ("Future<T>.id() -> int", Plain, thread::id),
    ("Future<T>.isDone() -> bool", Plain, thread::is_done),
    ("static Future.selectAny(List<Future<T>>) -> int", Plain, thread::select_any),
    ("Promise<T>.new()", Plain, thread::new_promise),
    ("Promise<T>.complete(T)", Plain, thread::complete),
    ("Promise<T>.fail(Exception)", Plain, thread::fail),
    ("Promise<T>.future() -> Future<T>", Plain, thread::promised_future),

    // Channels and locks.
    ("Channel<T>.new()", Plain, channel::new),
    ("Channel<T>.new(int)", Plain, channel::with_capacity),
    ("Channel<T>.close()", Plain, channel::close),
    ("Channel<T>.isClosed() -> bool", Plain, channel::is_closed),
    ("Channel<T>.length() -> int", Plain, channel::length),
    ("Channel<T>.recv() -> T", Plain, channel::recv),
    ("Channel<T>.recvTimeout(int) -> T", Plain, channel::recv_timeout),
    ("Channel<T>.send(T)", Plain, channel::send),
    ("Channel<T>.tryRecv(out T) -> bool", Plain, channel::try_recv),
    ("Channel<T>.trySend(T) -> bool", Plain, channel::try_send),
    ("Select.new()", Plain, select::new),
    ("Select.clear()", Plain, select::clear),
    ("Select.poll() -> int", Plain, select::poll),
    ("Select.recv(Channel<T>) -> int", Plain, select::recv),
    ("Select.send(Channel<T>, T) -> int", Plain, select::send),
    ("Select.value(Channel<T>) -> T", Plain, select::value),
    ("Select.wait() -> int", Plain, select::wait),
    ("Select.waitTimeout(int) -> int", Plain, select::wait_timeout),
    ("Mutex.new()", Plain, lock::new),
    ("Mutex.lock()", Plain, lock::lock),
    ("Mutex.tryLock() -> bool", Plain, lock::try_lock),
    ("Mutex.unlock()", Plain, lock::unlock),
    ("ReentrantMutex.new()", Plain, lock::new),
    ("ReentrantMutex.lock()", Plain, lock::lock_again),
    ("ReentrantMutex.tryLock() -> bool", Plain, lock::try_lock_again),
    ("ReentrantMutex.unlock()", Plain, lock::unlock),
    ("Semaphore.new(int)", Plain, semaphore::new),
    ("Semaphore.acquire()", Plain, semaphore::acquire),
    ("Semaphore.release()", Plain, semaphore::release),
    ("Semaphore.tryAcquire() -> bool", Plain, semaphore::try_acquire),
    ("AtomicInt.new()", Plain, atomic::new_zero),
    ("AtomicInt.new(int)", Plain, atomic::new),
    ("AtomicInt.add(int) -> int", Plain, atomic::add),
    ("AtomicInt.compareAndSet(int, int) -> bool", Plain, atomic::compare_and_set),
    ("AtomicInt.get() -> int", Plain, atomic::get),
    ("AtomicInt.set(int)", Plain, atomic::set),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::library::pattern::Home;
    use crate::vm::types::{Param, Signature, known};

    #[test]
    fn every_declaration_can_be_found_by_home_and_name() {
        assert_eq!(NATIVES.len(), TABLE.len());
        for native in NATIVES.iter() {
            let found = lookup(native.declaration.home_name, native.declaration.name);
            assert!(found.iter().any(|other| std::ptr::eq(other, native)), "{native:?}");
        }
        assert_eq!(lookup("string", "substring").len(), 2);
        assert!(lookup("io", "nothing").is_empty() && lookup("nothing", "print").is_empty());
        assert!(members("fs").count() > 5);
    }

    #[test]
    fn an_import_is_found_by_an_instance_of_its_signature_only() {
        let types = TypeTable::new();
        let param = |ty| Param { ty, out: false };
        let signature =
            |list, element, result| Signature { params: vec![param(list), param(element)], result };
        let add = |signature| NativeImport { name: "List.add".into(), signature };
        let strings = add(signature(known::STRINGS, known::STRING, known::VOID));
        assert_eq!(import(&strings, &types).unwrap().import_name(), "List.add");
        let wrong = add(signature(known::STRINGS, known::INT, known::VOID));
        assert!(import(&wrong, &types).is_none());
        let result = add(signature(known::STRINGS, known::STRING, known::INT));
        assert!(import(&result, &types).is_none());
    }

    #[test]
    fn the_home_of_a_type_is_a_home_of_the_table() {
        let mut types = TypeTable::new();
        let array = types.intern(Type::Array(known::INT));
        for (ty, name) in [(known::STRINGS, "add"), (known::STRING, "split"), (array, "length")] {
            let home = home_of_type(types.get(ty)).unwrap();
            assert_eq!(lookup(home, name)[0].declaration.home, Home::Method);
        }
        assert_eq!(home_of_type(types.get(known::INT)), None);
    }
}
