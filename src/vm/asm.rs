//! A small assembler, for tests: text to a module, instructions as the disassembler writes them but
//! with names for indices.
//!
//! ```text
//! class Point : Base { int x; Point next; }     struct Pair { int a; }     enum Dir { N E }
//! interface Shape { area }                      selector double area()
//! vtable Point native native native Point.len   implements Point Shape area=Point.area
//! native void io.print(string)                  type List<int>
//! func int main(int, out string) 5 constructor  (5 registers; `method`, `constructor` or nothing)
//!   start:
//!     text r1, "abc"
//!     jump.lt.int r1, r2, start
//!     switch r1, -1 start start | start         (first value, targets, default)
//!     try start end handler r3 Exception
//! ```

use std::collections::HashMap;

use super::module::{Function, FunctionKind, Handler, Module, NativeImport, Switch};
use super::op::{Code, Op, Operand, Place};
use super::types::{
    ClassDef, ClassId, EnumDef, EnumId, ExceptionClass, FieldDef, FunctionId, InterfaceDef,
    InterfaceId, Method, Param, SelectorDef, SelectorId, Signature, Type, TypeId, TypeTable, known,
};

/// Assembles a module. `main` is its main function, if there is one.
///
/// # Panics
///
/// On text that is not well-formed: tests write it.
pub(crate) fn assemble(text: &str) -> Module {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut asm = Assembler::new();
    lines().for_each(|line| asm.name_type(line));
    lines().for_each(|line| asm.declare(line));
    lines().for_each(|line| asm.complete(line));
    asm.module.main = asm.functions.get("main").copied();
    asm.assemble_code(lines());
    asm.module
}

struct Assembler {
    module: Module,
    types: HashMap<String, Type>,
    functions: HashMap<String, FunctionId>,
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The words between braces.
fn body(line: &str) -> &str {
    line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(body, _)| body)
}

/// Splits at commas that are not within `<…>` or a text.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start) = (0, false, 0);
    let mut parts = Vec::new();
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '<' if !quoted => depth += 1,
            '>' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl Assembler {
    fn new() -> Assembler {
        let module = Module {
            name: "test".into(),
            types: TypeTable::new(),
            functions: Vec::new(),
            strings: Vec::new(),
            words: Vec::new(),
            natives: Vec::new(),
            main: None,
            files: vec!["test.n".into()],
        };
        let mut types = HashMap::new();
        for id in 0..known::COUNT {
            types.insert(module.types.name(TypeId(id)), module.types.get(TypeId(id)).clone());
        }
        for opaque in [
            super::types::Opaque::Thread,
            super::types::Opaque::Mutex,
            super::types::Opaque::AtomicInt,
        ] {
            types.insert(format!("{opaque:?}"), Type::Opaque(opaque));
        }
        Assembler { module, types, functions: HashMap::new() }
    }

    /// Gives numbers to what has a name.
    fn name_type(&mut self, line: &str) {
        let types = &mut self.module.types;
        let name = words(line).get(1).copied().unwrap_or_default().to_string();
        let ty = match words(line)[0] {
            keyword @ ("class" | "struct") => {
                let id = ClassId(types.classes.len() as u32);
                let is_struct = keyword == "struct";
                types.classes.push(ClassDef {
                    name: name.clone(),
                    base: None,
                    is_struct,
                    fields: Vec::new(),
                    vtable: if is_struct { Vec::new() } else { vec![Method::Native; 3] },
                    selectors: Vec::new(),
                    interfaces: Vec::new(),
                });
                if is_struct { Type::Struct(id) } else { Type::Class(id) }
            }
            "interface" => {
                let id = InterfaceId(types.interfaces.len() as u32);
                types.interfaces.push(InterfaceDef { name: name.clone(), selectors: Vec::new() });
                Type::Interface(id)
            }
            "enum" => {
                let id = EnumId(types.enums.len() as u32);
                let members = words(body(line)).into_iter().zip(0..);
                let members = members.map(|(name, value)| (name.to_string(), value)).collect();
                types.enums.push(EnumDef { name: name.clone(), members });
                Type::Enum(id)
            }
            _ => return,
        };
        types.intern(ty.clone());
        self.types.insert(name, ty);
    }

    fn ty(&mut self, text: &str) -> TypeId {
        let text = text.trim();
        if let Some(element) = text.strip_suffix("[]") {
            let element = self.ty(element);
            return self.module.types.intern(Type::Array(element));
        }
        if let Some(ty) = self.types.get(text) {
            return self.module.types.intern(ty.clone());
        }
        let (name, args) = text.split_once('<').unwrap_or_else(|| panic!("no type {text:?}"));
        let args = split(args.strip_suffix('>').expect("a closing >"));
        let ty = match name {
            "func" => {
                Type::Func(Signature { result: self.ty(args[0]), params: self.params(&args[1..]) })
            }
            "List" => Type::List(self.ty(args[0])),
            "Channel" => Type::Channel(self.ty(args[0])),
            "Future" => Type::Future(self.ty(args[0])),
            "Promise" => Type::Promise(self.ty(args[0])),
            "Dict" => Type::Dict(self.ty(args[0]), self.ty(args[1])),
            _ => panic!("no type {text:?}"),
        };
        self.module.types.intern(ty)
    }

    fn params(&mut self, texts: &[&str]) -> Vec<Param> {
        let mut params = Vec::new();
        for text in texts {
            let (ty, out) = match text.strip_prefix("out ") {
                Some(ty) => (ty, true),
                None => (*text, false),
            };
            params.push(Param { ty: self.ty(ty), out });
        }
        params
    }

    /// `int area(Point, int) rest` as name, signature and rest.
    fn signature<'t>(&mut self, text: &'t str) -> (&'t str, Signature, &'t str) {
        let (head, tail) = text.split_once('(').expect("a parameter list");
        let (params, rest) = tail.rsplit_once(')').expect("a closing )");
        let (result, name) = head.trim().rsplit_once(' ').expect("a result type");
        let params = self.params(&split(params));
        (name, Signature { params, result: self.ty(result) }, rest)
    }

    fn declare(&mut self, line: &str) {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "type" => {
                self.ty(rest);
            }
            "selector" => {
                let (name, signature, _) = self.signature(rest);
                self.module.types.selectors.push(SelectorDef { name: name.into(), signature });
            }
            "native" => {
                let (name, signature, _) = self.signature(rest);
                self.module.natives.push(NativeImport { name: name.into(), signature });
            }
            "func" if rest.contains('(') => {
                let (name, signature, rest) = self.signature(rest);
                let rest = words(rest);
                let id = FunctionId(self.module.functions.len() as u32);
                self.functions.insert(name.into(), id);
                self.module.functions.push(Function {
                    name: name.into(),
                    signature,
                    registers: rest[0].parse().expect("a number of registers"),
                    code: Vec::new(),
                    handlers: Vec::new(),
                    switches: Vec::new(),
                    file: 0,
                    lines: Vec::new(),
                    locals: Vec::new(),
                    kind: match rest.get(1) {
                        Some(&"method") => FunctionKind::Method,
                        Some(&"constructor") => FunctionKind::Constructor,
                        _ => FunctionKind::Free,
                    },
                });
            }
            _ => {}
        }
    }

    fn class(&self, name: &str) -> ClassId {
        match self.types.get(name) {
            Some(&Type::Class(id) | &Type::Struct(id)) => id,
            _ => panic!("no class {name:?}"),
        }
    }

    fn selector(&self, name: &str) -> SelectorId {
        let place = self.module.types.selectors.iter().position(|s| s.name == name);
        SelectorId(place.unwrap_or_else(|| panic!("no selector {name:?}")) as u32)
    }

    fn function(&self, name: &str) -> FunctionId {
        *self.functions.get(name).unwrap_or_else(|| panic!("no function {name:?}"))
    }

    /// Fills in what refers to other names.
    fn complete(&mut self, line: &str) {
        let parts = words(line);
        match parts[0] {
            "class" | "struct" => {
                let id = self.class(parts[1]);
                if parts.get(2) == Some(&":") {
                    let base = self.class(parts[3]);
                    let def = self.module.types.class(base).clone();
                    let class = &mut self.module.types.classes[id.0 as usize];
                    class.base = Some(base);
                    class.fields = def.fields;
                    class.vtable = def.vtable;
                }
                for field in body(line).split(';').filter(|field| !field.trim().is_empty()) {
                    let (ty, name) = field.trim().rsplit_once(' ').expect("type and name");
                    let field = FieldDef { name: name.into(), ty: self.ty(ty) };
                    self.module.types.classes[id.0 as usize].fields.push(field);
                }
            }
            "interface" => {
                let Some(&Type::Interface(id)) = self.types.get(parts[1]) else { return };
                let selectors = words(body(line)).iter().map(|name| self.selector(name)).collect();
                self.module.types.interfaces[id.0 as usize].selectors = selectors;
            }
            "vtable" => {
                let method = |name: &&str| match *name {
                    "native" => Method::Native,
                    name => Method::Script(self.function(name)),
                };
                let vtable = parts[2..].iter().map(method).collect();
                let id = self.class(parts[1]);
                self.module.types.classes[id.0 as usize].vtable = vtable;
            }
            "implements" => {
                let id = self.class(parts[1]);
                let Some(&Type::Interface(interface)) = self.types.get(parts[2]) else { return };
                let pair = |text: &&str| {
                    let (selector, function) = text.split_once('=').expect("selector=function");
                    (self.selector(selector), self.function(function))
                };
                let pairs: Vec<_> = parts[3..].iter().map(pair).collect();
                let class = &mut self.module.types.classes[id.0 as usize];
                class.interfaces.push(interface);
                class.selectors.extend(pairs);
            }
            _ => {}
        }
    }

    fn assemble_code<'t>(&mut self, lines: impl Iterator<Item = &'t str>) {
        let mut bodies: Vec<Vec<&str>> = Vec::new();
        const OUTSIDE: [&str; 9] = [
            "class",
            "struct",
            "interface",
            "enum",
            "selector",
            "native",
            "vtable",
            "implements",
            "type",
        ];
        for line in lines {
            let keyword = words(line)[0];
            if keyword == "func" && line.contains('(') {
                bodies.push(Vec::new());
            } else if !OUTSIDE.contains(&keyword) {
                bodies.last_mut().expect("code stands in a function").push(line);
            }
        }
        for (index, body) in bodies.into_iter().enumerate() {
            let mut labels = HashMap::new();
            let mut instructions = Vec::new();
            let mut handlers = Vec::new();
            for line in body {
                if let Some(label) = line.strip_suffix(':') {
                    labels.insert(label, instructions.len() as u32);
                } else if line.starts_with("try ") {
                    handlers.push(line);
                } else {
                    instructions.push(line);
                }
            }
            for (at, line) in instructions.into_iter().enumerate() {
                let code = self.instruction(index, at, line, &labels);
                self.module.functions[index].code.push(code);
            }
            for line in handlers {
                let parts = words(line);
                let handler = Handler {
                    first: labels[parts[1]],
                    end: labels[parts[2]],
                    target: labels[parts[3]],
                    register: register(parts[4]),
                    ty: self.ty(parts[5]),
                };
                self.module.functions[index].handlers.push(handler);
            }
        }
    }

    fn instruction(
        &mut self,
        function: usize,
        at: usize,
        line: &str,
        labels: &HashMap<&str, u32>,
    ) -> Code {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let op = Op::ALL.iter().copied().find(|op| op.text() == name);
        let op = op.unwrap_or_else(|| panic!("no operation {name:?}"));
        let mut code = Code(op as u64);
        let parts = split(rest);
        assert_eq!(parts.len(), op.operands().len(), "operands of {line:?}");
        for (&(operand, place), text) in op.operands().iter().zip(parts) {
            let value = match operand {
                Operand::J => {
                    let target = i64::from(labels[text]);
                    (target - at as i64 - 1) as i32 as u32
                }
                Operand::Sw => self.switch(function, text, labels),
                _ => self.operand(operand, text),
            };
            let narrow = place != Place::X && matches!(operand, Operand::J | Operand::K);
            let value = if narrow { u32::from(value as u16) } else { value };
            code = code.with_field(place, value).expect("an operand that fits");
        }
        code
    }

    fn switch(&mut self, function: usize, text: &str, labels: &HashMap<&str, u32>) -> u32 {
        let parts = words(text);
        let bar = parts.iter().position(|part| *part == "|").expect("a default");
        let switches = &mut self.module.functions[function].switches;
        switches.push(Switch {
            first: parts[0].parse().expect("a first value"),
            targets: parts[1..bar].iter().map(|label| labels[label]).collect(),
            default: labels[parts[bar + 1]],
        });
        switches.len() as u32 - 1
    }

    fn operand(&mut self, operand: Operand, text: &str) -> u32 {
        match operand {
            Operand::K | Operand::U => text.parse::<i64>().expect("a number") as u32,
            Operand::Str => {
                self.module.strings.push(text.trim_matches('"').into());
                self.module.strings.len() as u32 - 1
            }
            Operand::Word => {
                self.module.words.push(text.parse::<i64>().expect("a number") as u64);
                self.module.words.len() as u32 - 1
            }
            Operand::Ty => self.ty(text).0,
            Operand::Cls => self.class(text).0,
            Operand::Fun => self.function(text).0,
            Operand::Nat => {
                let place = self.module.natives.iter().position(|native| native.name == text);
                place.unwrap_or_else(|| panic!("no native {text:?}")) as u32
            }
            Operand::Sel => self.selector(text).0,
            Operand::Slot | Operand::Fld => text.parse().expect("an index"),
            Operand::Exc => {
                let class = ExceptionClass::ALL.iter().find(|class| class.name() == text);
                class.unwrap_or_else(|| panic!("no exception {text:?}")).class().0
            }
            _ => register(text).into(),
        }
    }
}

fn register(text: &str) -> u16 {
    let number = text.strip_prefix('r').and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no register {text:?}"))
}
