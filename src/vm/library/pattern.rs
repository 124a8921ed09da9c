//! Signatures of native functions as text and as patterns over types.
//!
//! A declaration such as `"Dict<K, V>.get(K) -> V"` is one line of the [table](super::decl). Parsed,
//! it is a list of [`Pattern`]s with type variables. The checker binds the variables by the
//! receiver (or the arguments) and instantiates the rest; the verifier and the linker ask whether
//! the signature that a module imports is an instance of the pattern.
//!
//! ```text
//! declaration = ["static"] home "." name "(" [param {"," param}] ")" ["->" type]
//! home        = package | type          (a type: the receiver, which is parameter 0)
//! param       = ["out"] type
//! type        = name ["<" type {"," type} ">"] ["[]"] | "func" "<" type {"," param} ">"
//! ```
//!
//! `T`, `K`, `V` are variables: any type but `void`. `text` is a string to which the caller converts
//! any value that has a text. `new` as a name makes a constructor: no receiver, the home is its
//! result.

use crate::vm::types::{Opaque, Param, Signature, Type, TypeId, TypeTable, known};

/// A type variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Var {
    T,
    K,
    V,
}

/// A type with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any type but `void`, the same wherever the variable stands.
    Var(Var),
    /// A string to which any value with a text is converted.
    Text,
    /// One of the types that every table begins with.
    Known(TypeId),
    Array(Box<Pattern>),
    List(Box<Pattern>),
    Dict(Box<Pattern>, Box<Pattern>),
    Channel(Box<Pattern>),
    Future(Box<Pattern>),
    Promise(Box<Pattern>),
    Opaque(Opaque),
    Func {
        result: Box<Pattern>,
        params: Vec<ParamPattern>,
    },
}

/// A parameter of a native function, or of a `func` type in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamPattern {
    pub ty: Pattern,
    pub out: bool,
}

/// What the variables stand for, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bindings([Option<TypeId>; 3]);

impl Bindings {
    /// What a variable stands for.
    pub fn get(&self, var: Var) -> Option<TypeId> {
        self.0[var as usize]
    }
}

impl Pattern {
    /// Whether `ty` is an instance, given and extending the bindings. They may have been extended
    /// in part if it is not.
    pub fn unify(&self, ty: TypeId, types: &TypeTable, bindings: &mut Bindings) -> bool {
        match (self, types.get(ty)) {
            (Pattern::Var(_), Type::Void) => false,
            (&Pattern::Var(var), _) => *bindings.0[var as usize].get_or_insert(ty) == ty,
            (Pattern::Text, _) => ty == known::STRING,
            (&Pattern::Known(known), _) => known == ty,
            (Pattern::Array(of), &Type::Array(element))
            | (Pattern::List(of), &Type::List(element))
            | (Pattern::Channel(of), &Type::Channel(element))
            | (Pattern::Future(of), &Type::Future(element))
            | (Pattern::Promise(of), &Type::Promise(element)) => of.unify(element, types, bindings),
            (Pattern::Dict(key, value), &Type::Dict(k, v)) => {
                key.unify(k, types, bindings) && value.unify(v, types, bindings)
            }
            (Pattern::Opaque(opaque), Type::Opaque(other)) => opaque == other,
            (Pattern::Func { result, params }, Type::Func(signature)) => {
                result.unify(signature.result, types, bindings)
                    && unify_params(params, &signature.params, types, bindings)
            }
            _ => false,
        }
    }

    /// The type with the variables replaced; `None` if one is not bound.
    pub fn instantiate(&self, types: &mut TypeTable, bindings: &Bindings) -> Option<TypeId> {
        let ty = match self {
            &Pattern::Var(var) => return bindings.get(var),
            Pattern::Text => return Some(known::STRING),
            &Pattern::Known(ty) => return Some(ty),
            Pattern::Array(of) => Type::Array(of.instantiate(types, bindings)?),
            Pattern::List(of) => Type::List(of.instantiate(types, bindings)?),
            Pattern::Channel(of) => Type::Channel(of.instantiate(types, bindings)?),
            Pattern::Future(of) => Type::Future(of.instantiate(types, bindings)?),
            Pattern::Promise(of) => Type::Promise(of.instantiate(types, bindings)?),
            Pattern::Dict(key, value) => {
                Type::Dict(key.instantiate(types, bindings)?, value.instantiate(types, bindings)?)
            }
            &Pattern::Opaque(opaque) => Type::Opaque(opaque),
            Pattern::Func { result, params } => {
                let result = result.instantiate(types, bindings)?;
                let mut list = Vec::with_capacity(params.len());
                for param in params {
                    let ty = param.ty.instantiate(types, bindings)?;
                    list.push(Param { ty, out: param.out });
                }
                Type::Func(Signature { params: list, result })
            }
        };
        Some(types.intern(ty))
    }
}

fn unify_params(
    patterns: &[ParamPattern],
    params: &[Param],
    types: &TypeTable,
    bindings: &mut Bindings,
) -> bool {
    patterns.len() == params.len()
        && patterns.iter().zip(params).all(|(pattern, param)| {
            pattern.out == param.out && pattern.ty.unify(param.ty, types, bindings)
        })
}

/// Where a native function is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// `io.print(…)`: a function of a package that has to be imported.
    Package,
    /// `list.add(…)`: parameter 0 is the receiver.
    Method,
    /// `Future.selectAny(…)`: a function of a built-in type.
    Static,
    /// `Channel<int>(…)`: makes an object of a built-in type.
    Constructor,
}

/// A declaration, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    pub home: Home,
    /// The package (`io`) or the name of the type (`List`, `Array`, `string`).
    pub home_name: &'static str,
    /// Without its home: `print`; `new` for constructors.
    pub name: &'static str,
    /// The receiver first, if there is one.
    pub params: Vec<ParamPattern>,
    pub result: Pattern,
}

impl Declaration {
    /// The bindings that make a signature an instance of this declaration.
    pub fn matches(&self, signature: &Signature, types: &TypeTable) -> Option<Bindings> {
        let mut bindings = Bindings::default();
        (unify_params(&self.params, &signature.params, types, &mut bindings)
            && self.result.unify(signature.result, types, &mut bindings))
        .then_some(bindings)
    }

    /// The signature with the variables replaced; `None` if one is not bound.
    pub fn instantiate(&self, types: &mut TypeTable, bindings: &Bindings) -> Option<Signature> {
        let mut params = Vec::with_capacity(self.params.len());
        for param in &self.params {
            params.push(Param { ty: param.ty.instantiate(types, bindings)?, out: param.out });
        }
        Some(Signature { params, result: self.result.instantiate(types, bindings)? })
    }

    /// Parses a line of the table.
    ///
    /// # Panics
    ///
    /// If it is not well formed: the table is part of the program, and a test parses all of it.
    pub fn parse(text: &'static str, packages: &[&str]) -> Declaration {
        let (is_static, text) = match text.strip_prefix("static ") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (path, rest) = text.split_once('(').expect("a declaration has parameters");
        let (home_text, name) = path.rsplit_once('.').expect("a declaration has a home");
        let mut parser = Parser { rest };
        let mut params = Vec::new();
        if !parser.take(")") {
            loop {
                params.push(parser.param());
                if parser.take(")") {
                    break;
                }
                parser.expect(",");
            }
        }
        let mut result = if parser.take("->") { parser.ty() } else { Pattern::Known(known::VOID) };
        assert!(parser.rest.is_empty(), "`{}` behind a declaration", parser.rest);

        let mut home_name = home_text.split('<').next().unwrap_or(home_text);
        let home = if packages.contains(&home_text) {
            Home::Package
        } else if is_static {
            Home::Static
        } else {
            let receiver = Parser { rest: home_text }.ty();
            if matches!(receiver, Pattern::Array(_)) {
                home_name = "Array";
            }
            if name == "new" {
                result = receiver;
                Home::Constructor
            } else {
                params.insert(0, ParamPattern { ty: receiver, out: false });
                Home::Method
            }
        };
        Declaration { home, home_name, name, params, result }
    }
}

/// Reads types from the text of a declaration.
struct Parser {
    rest: &'static str,
}

impl Parser {
    fn take(&mut self, token: &str) -> bool {
        let taken = self.rest.trim_start().strip_prefix(token);
        if let Some(rest) = taken {
            self.rest = rest;
        }
        taken.is_some()
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "`{token}` expected at `{}`", self.rest);
    }

    fn param(&mut self) -> ParamPattern {
        let out = self.take("out ");
        ParamPattern { ty: self.ty(), out }
    }

    fn arg(&mut self) -> Box<Pattern> {
        self.expect("<");
        let arg = self.ty();
        self.expect(">");
        Box::new(arg)
    }

    fn ty(&mut self) -> Pattern {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        self.rest = rest;
        let pattern = match name {
            "T" => Pattern::Var(Var::T),
            "K" => Pattern::Var(Var::K),
            "V" => Pattern::Var(Var::V),
            "text" => Pattern::Text,
            "List" => Pattern::List(self.arg()),
            "Channel" => Pattern::Channel(self.arg()),
            "Future" => Pattern::Future(self.arg()),
            "Promise" => Pattern::Promise(self.arg()),
            "Dict" => {
                self.expect("<");
                let key = Box::new(self.ty());
                self.expect(",");
                let value = Box::new(self.ty());
                self.expect(">");
                Pattern::Dict(key, value)
            }
            "func" => {
                self.expect("<");
                let result = Box::new(self.ty());
                let mut params = Vec::new();
                while !self.take(">") {
                    self.expect(",");
                    params.push(self.param());
                }
                Pattern::Func { result, params }
            }
            name => match (scalar(name), opaque(name)) {
                (Some(ty), _) => Pattern::Known(ty),
                (None, Some(opaque)) => Pattern::Opaque(opaque),
                (None, None) => panic!("`{name}` is no type that a declaration can name"),
            },
        };
        if self.take("[]") { Pattern::Array(Box::new(pattern)) } else { pattern }
    }
}

/// The type without parameters of a name.
fn scalar(name: &str) -> Option<TypeId> {
    Some(match name {
        "void" => known::VOID,
        "bool" => known::BOOL,
        "byte" => known::BYTE,
        "short" => known::SHORT,
        "int" => known::INT,
        "long" => known::LONG,
        "ubyte" => known::UBYTE,
        "ushort" => known::USHORT,
        "uint" => known::UINT,
        "ulong" => known::ULONG,
        "float" => known::FLOAT,
        "double" => known::DOUBLE,
        "char" => known::CHAR,
        "string" => known::STRING,
        "Object" => known::OBJECT,
        "Exception" => known::EXCEPTION,
        _ => return None,
    })
}

/// The built-in reference type without parameters that scripts call by a name.
pub fn opaque(name: &str) -> Option<Opaque> {
    Some(match name {
        "Thread" => Opaque::Thread,
        "Mutex" => Opaque::Mutex,
        "ReentrantMutex" => Opaque::ReentrantMutex,
        "Semaphore" => Opaque::Semaphore,
        "AtomicInt" => Opaque::AtomicInt,
        "Select" => Opaque::Select,
        _ => return None,
    })
}

/// The name under which the methods of a type stand in the table; `None` if it has none of its own.
pub fn home_of(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Array(_) => "Array",
        Type::List(_) => "List",
        Type::Dict(..) => "Dict",
        Type::Channel(_) => "Channel",
        Type::Future(_) => "Future",
        Type::Promise(_) => "Promise",
        Type::String => "string",
        Type::Object => "Object",
        Type::Opaque(Opaque::Thread) => "Thread",
        Type::Opaque(Opaque::Mutex) => "Mutex",
        Type::Opaque(Opaque::ReentrantMutex) => "ReentrantMutex",
        Type::Opaque(Opaque::Semaphore) => "Semaphore",
        Type::Opaque(Opaque::AtomicInt) => "AtomicInt",
        Type::Opaque(Opaque::Select) => "Select",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &'static str) -> Declaration {
        Declaration::parse(text, &["io", "thread"])
    }

    #[test]
    fn a_method_has_its_receiver_as_first_parameter() {
        let get = parse("Dict<K, V>.get(K) -> V");
        assert_eq!((get.home, get.home_name, get.name), (Home::Method, "Dict", "get"));
        assert_eq!(get.params.len(), 2);
        let mut types = TypeTable::new();
        let dict = types.intern(Type::Dict(known::STRING, known::INT));
        let mut bindings = Bindings::default();
        assert!(get.params[0].ty.unify(dict, &types, &mut bindings));
        let signature = get.instantiate(&mut types, &bindings).unwrap();
        assert_eq!((signature.params[1].ty, signature.result), (known::STRING, known::INT));
        assert_eq!(get.matches(&signature, &types), Some(bindings));
    }

    #[test]
    fn a_variable_stands_for_one_type_only() {
        let add = parse("List<T>.add(T)");
        let mut types = TypeTable::new();
        let list = types.intern(Type::List(known::INT));
        let param = |ty| Param { ty, out: false };
        let signature =
            |ty| Signature { params: vec![param(list), param(ty)], result: known::VOID };
        assert!(add.matches(&signature(known::INT), &types).is_some());
        assert!(add.matches(&signature(known::LONG), &types).is_none());
    }

    #[test]
    fn functions_arrays_outs_and_constructors_are_read() {
        let print = parse("io.print(text)");
        assert_eq!((print.home, print.params[0].ty.clone()), (Home::Package, Pattern::Text));
        let length = parse("T[].length() -> int");
        assert_eq!((length.home_name, length.result), ("Array", Pattern::Known(known::INT)));
        let receive = parse("Channel<T>.tryRecv(out T) -> bool");
        assert!(receive.params[1].out);
        let new = parse("Channel<T>.new(int)");
        assert_eq!((new.home, new.params.len()), (Home::Constructor, 1));
        assert_eq!(new.result, Pattern::Channel(Box::new(Pattern::Var(Var::T))));
        let any = parse("static Future.selectAny(List<Future<T>>) -> int");
        assert_eq!((any.home, any.home_name), (Home::Static, "Future"));
        let spawn = parse("thread.spawn(func<T, out int, string[]>) -> Future<T>");
        let Pattern::Func { params, .. } = &spawn.params[0].ty else { panic!() };
        assert_eq!((params.len(), params[0].out, params[1].out), (2, true, false));
    }

    #[test]
    fn no_variable_stands_for_void() {
        let spawn = parse("thread.spawn(func<T>) -> Future<T>");
        let mut types = TypeTable::new();
        let f = types.intern(Type::Func(Signature { params: Vec::new(), result: known::VOID }));
        assert!(!spawn.params[0].ty.unify(f, &types, &mut Bindings::default()));
    }
}
