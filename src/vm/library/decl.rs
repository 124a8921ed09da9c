//! The table of native functions: signature and kind of each.
//!
//! This is the only place that lists them. [`lookup`] finds them by home (a package or a built-in
//! type) and name, for the checker; [`import`] by the name and signature that a module imports, for
//! the verifier and the linker. The table is parsed when it is first used.

use std::sync::LazyLock;

use super::pattern::{Declaration, home_of};
use crate::vm::module::NativeImport;
use crate::vm::native::NativeKind;
use crate::vm::types::{Type, TypeTable};

/// The packages that exist without a file. A script imports them as any other.
pub const PACKAGES: &[&str] = &["fs", "io", "math"];

/// A native function.
#[derive(Debug)]
pub struct Native {
    pub declaration: Declaration,
    pub kind: NativeKind,
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
    let parse = |&(text, kind): &(&'static str, NativeKind)| Native {
        declaration: Declaration::parse(text, PACKAGES),
        kind,
    };
    let mut natives: Vec<Native> = TABLE.iter().map(parse).collect();
    natives.sort_by_key(|native| (native.declaration.home_name, native.declaration.name));
    natives
});

use NativeKind::{Blocking, Plain, Reentrant};

#[rustfmt::skip]
const TABLE: &[(&str, NativeKind)] = &[
    // Arrays and lists.
    ("T[].length() -> int", Plain),
    ("T[].toString() -> string", Reentrant),
    ("List<T>.add(T)", Plain),
    ("List<T>.clear()", Plain),
    ("List<T>.contains(T) -> bool", Plain),
    ("List<T>.get(int) -> T", Plain),
    ("List<T>.indexOf(T) -> int", Plain),
    ("List<T>.length() -> int", Plain),
    ("List<T>.removeAt(int)", Plain),
    ("List<T>.set(int, T)", Plain),
    ("List<T>.toString() -> string", Reentrant),

    // Dictionaries.
    ("Dict<K, V>.clear()", Plain),
    ("Dict<K, V>.containsKey(K) -> bool", Plain),
    ("Dict<K, V>.count() -> int", Plain),
    ("Dict<K, V>.get(K) -> V", Plain),
    ("Dict<K, V>.keys() -> List<K>", Plain),
    ("Dict<K, V>.remove(K) -> int", Plain),
    ("Dict<K, V>.set(K, V)", Plain),
    ("Dict<K, V>.toString() -> string", Reentrant),

    // Strings.
    ("string.charAt(int) -> char", Plain),
    ("string.charCount() -> int", Plain),
    ("string.contains(string) -> bool", Plain),
    ("string.endsWith(string) -> bool", Plain),
    ("string.equals(string) -> int", Plain),
    ("string.getHashCode() -> int", Plain),
    ("string.indexOf(string) -> int", Plain),
    ("string.length() -> int", Plain),
    ("string.replace(string, string) -> string", Plain),
    ("string.split(string) -> List<string>", Plain),
    ("string.startsWith(string) -> bool", Plain),
    ("string.substring(int) -> string", Plain),
    ("string.substring(int, int) -> string", Plain),
    ("string.toBool() -> bool", Plain),
    ("string.toChar() -> char", Plain),
    ("string.toDouble() -> double", Plain),
    ("string.toFloat() -> float", Plain),
    ("string.toInt() -> int", Plain),
    ("string.toLong() -> long", Plain),
    ("string.toLower() -> string", Plain),
    ("string.toString() -> string", Plain),
    ("string.toUpper() -> string", Plain),
    ("string.trim() -> string", Plain),

    // Input and output.
    ("io.appendFile(string, string)", Blocking),
    ("io.args() -> List<string>", Plain),
    ("io.eprint(text)", Blocking),
    ("io.hasInput() -> bool", Blocking),
    ("io.print(text)", Blocking),
    ("io.readBool() -> bool", Blocking),
    ("io.readChar() -> char", Blocking),
    ("io.readDouble() -> double", Blocking),
    ("io.readFile(string) -> string", Blocking),
    ("io.readFloat() -> float", Blocking),
    ("io.readInt() -> int", Blocking),
    ("io.readLine() -> string", Blocking),
    ("io.readLong() -> long", Blocking),
    ("io.readToken() -> string", Blocking),
    ("io.write(text)", Blocking),
    ("io.writeFile(string, string)", Blocking),

    // Files.
    ("fs.exists(string) -> bool", Blocking),
    ("fs.isDirectory(string) -> bool", Blocking),
    ("fs.isFile(string) -> bool", Blocking),
    ("fs.join(string, string) -> string", Plain),
    ("fs.listFiles(string) -> List<string>", Blocking),
    ("fs.makeDirs(string)", Blocking),
    ("fs.remove(string)", Blocking),
    ("fs.size(string) -> long", Blocking),

    // Mathematics.
    ("math.absf(double) -> double", Plain),
    ("math.absi(int) -> int", Plain),
    ("math.acos(double) -> double", Plain),
    ("math.asin(double) -> double", Plain),
    ("math.atan(double) -> double", Plain),
    ("math.atan2(double, double) -> double", Plain),
    ("math.ceil(double) -> long", Plain),
    ("math.clampf(double, double, double) -> double", Plain),
    ("math.clampi(int, int, int) -> int", Plain),
    ("math.cos(double) -> double", Plain),
    ("math.exp(double) -> double", Plain),
    ("math.floor(double) -> long", Plain),
    ("math.log(double) -> double", Plain),
    ("math.maxf(double, double) -> double", Plain),
    ("math.maxi(int, int) -> int", Plain),
    ("math.minf(double, double) -> double", Plain),
    ("math.mini(int, int) -> int", Plain),
    ("math.pow(double, double) -> double", Plain),
    ("math.random() -> double", Plain),
    ("math.randomi(int, int) -> int", Plain),
    ("math.round(double) -> long", Plain),
    ("math.sin(double) -> double", Plain),
    ("math.sqrt(double) -> double", Plain),
    ("math.srand(int)", Plain),
    ("math.tan(double) -> double", Plain),
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
