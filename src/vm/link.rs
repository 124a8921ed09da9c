//! What a virtual machine has loaded: modules brought into one set of tables.
//!
//! A module's instructions name types, functions, constants and natives by the module's own indices.
//! Linking copies the code and replaces them by indices of the whole machine, so that the
//! interpreter needs to know of no module. Types are shared by structure: `List<int>` of two modules
//! is one type. Classes, structs, interfaces and enums belong to their module, but for the exception
//! classes with which every module begins.
//!
//! A [`Program`] only grows. It owns plain data without pointers; the interpreter derives its own
//! tables from it after each [`Program::link`]. The code of a module never moves.
//!
//! | operand | in a module | linked |
//! |---|---|---|
//! | `Ty`, `Cls` | type, class | [`TypeIndex`]; for `Box` and `Unbox` an enum is an `int` |
//! | `Fun X` | function | index in [`Program::functions`] |
//! | `Fun C` | function | index in [`Program::bound`] |
//! | `Str`, `Word`, `Nat` | constant, import | index in [`Program::texts`], [`Program::words`], [`Program::natives`] |
//! | `Sel` | selector | index in the [`TypeTable::selectors`] of [`Program::types`] |
//! | `Sw` | switch of the function | index in [`Program::switches`] |
//! | all others | | unchanged |

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::module::{Function, Handler, Module, NativeImport, Switch};
use super::op::{Code, Op, Operand, Place};
use super::types::{
    ClassDef, ClassId, EnumDef, EnumId, ExceptionClass, FieldDef, FunctionId, InterfaceDef,
    InterfaceId, Method, Param, SelectorDef, SelectorId, Signature, Type, TypeId, TypeTable, known,
};
use super::verify::Verified;

/// Everything that a virtual machine has loaded.
#[derive(Debug, Default)]
pub(crate) struct Program {
    modules: Vec<LinkedModule>,
    /// Modules by the address of their code.
    addresses: BTreeMap<usize, u32>,
    /// The types of all modules. Ids of functions in it are indices in [`Program::functions`].
    pub(crate) types: TypeTable,
    pub(crate) functions: Vec<LinkedFunction>,
    /// The functions that `Bind` instructions name.
    pub(crate) bound: Vec<FunctionId>,
    pub(crate) texts: Vec<Arc<str>>,
    pub(crate) words: Vec<u64>,
    /// Natives, with signatures in [`Program::types`].
    pub(crate) natives: Vec<NativeImport>,
    pub(crate) switches: Vec<LinkedSwitch>,
    interned: Interned,
}

/// Where to find what is shared by content.
#[derive(Debug, Default)]
struct Interned {
    bound: HashMap<FunctionId, u32>,
    texts: HashMap<Arc<str>, u32>,
    words: HashMap<u64, u32>,
    natives: HashMap<(String, Signature), u32>,
    selectors: HashMap<(String, Signature), u32>,
}

/// A runtime type: what the header of an object holds and what linked instructions name.
///
/// `string` has number 1; any other type of [`Program::types`] has its id plus
/// [`FIRST`](TypeIndex::FIRST). The numbers between are the heap's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TypeIndex(pub(crate) u32);

impl TypeIndex {
    pub(crate) const STRING: TypeIndex = TypeIndex(1);
    pub(crate) const FIRST: u32 = 16;

    /// The runtime type of a type of [`Program::types`].
    pub(crate) const fn of(id: TypeId) -> TypeIndex {
        if id.0 == known::STRING.0 { TypeIndex::STRING } else { TypeIndex(id.0 + TypeIndex::FIRST) }
    }

    /// The type of a runtime type, unless it is one of the heap's own.
    pub(crate) const fn id(self) -> Option<TypeId> {
        if self.0 == TypeIndex::STRING.0 {
            return Some(known::STRING);
        }
        match self.0.checked_sub(TypeIndex::FIRST) {
            Some(id) => Some(TypeId(id)),
            None => None,
        }
    }
}

/// A module that was loaded.
#[derive(Debug)]
pub(crate) struct LinkedModule {
    verified: Arc<Verified>,
    /// Of all functions, one after the other.
    code: Box<[Code]>,
    /// The index in [`Program::functions`] of the module's first one.
    first_function: u32,
    /// What the module's types are in the program's table.
    types: Box<[TypeId]>,
}

/// A function of the program.
#[derive(Clone, Debug)]
pub(crate) struct LinkedFunction {
    /// The module, by its index.
    pub(crate) module: u32,
    /// Its index in the module.
    pub(crate) function: FunctionId,
    /// How many registers a frame has.
    pub(crate) registers: u32,
    /// Where its instructions are in the module's code.
    first: usize,
    len: usize,
    /// With types of [`Program::types`].
    pub(crate) handlers: Box<[Handler]>,
}

/// A switch table of a function; targets are indices of instructions in it.
#[derive(Clone, Debug)]
pub(crate) struct LinkedSwitch {
    pub(crate) function: FunctionId,
    pub(crate) table: Switch,
}

/// Which instruction lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The index in [`Program::functions`].
    pub(crate) function: FunctionId,
    /// The instruction, by its index in the function.
    pub(crate) instruction: usize,
}

/// The program has more of something than instructions can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// The module that did not fit.
    pub(crate) module: String,
    pub(crate) what: &'static str,
    pub(crate) limit: u32,
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooMany { module, what, limit } = self;
        write!(f, "cannot load module {module:?}: the machine would have more than {limit} {what}")
    }
}

impl std::error::Error for TooMany {}

impl Program {
    /// A program without modules.
    pub(crate) fn new() -> Program {
        Program::default()
    }

    /// Brings a module in. Returns its index.
    ///
    /// # Errors
    ///
    /// [`TooMany`], if an index does not fit into an instruction. The program then holds types and
    /// constants that nothing uses, and goes on as before.
    pub(crate) fn link(&mut self, verified: impl Into<Arc<Verified>>) -> Result<u32, TooMany> {
        let verified = verified.into();
        let index = self.modules.len() as u32;
        let first_function = self.functions.len() as u32;
        let first_class = self.types.classes.len();
        let code = Linker::new(self, verified.module(), first_function).run(index);
        let code = code.inspect_err(|_| {
            // Their methods did not come in.
            for class in &mut self.types.classes[first_class..] {
                class.vtable.fill(Method::Native);
                class.selectors.clear();
            }
        })?;
        let types = code.types.into();
        let linked = LinkedModule { verified, code: code.code.into(), first_function, types };
        self.addresses.insert(linked.code.as_ptr().addr(), index);
        self.functions.extend(code.functions);
        self.switches.extend(code.switches);
        self.modules.push(linked);
        Ok(index)
    }

    /// A module by its index.
    pub(crate) fn module(&self, index: u32) -> &LinkedModule {
        &self.modules[index as usize]
    }

    /// How many modules there are.
    pub(crate) fn module_count(&self) -> usize {
        self.modules.len()
    }

    /// A function of the program as its module has it.
    pub(crate) fn source(&self, function: FunctionId) -> &Function {
        let linked = &self.functions[function.0 as usize];
        &self.module(linked.module).module().functions[linked.function.0 as usize]
    }

    /// The instructions of a function: they stay where they are for the life of the program.
    pub(crate) fn code(&self, function: FunctionId) -> &[Code] {
        let linked = &self.functions[function.0 as usize];
        &self.module(linked.module).code[linked.first..][..linked.len]
    }

    /// The instruction that lies at an address; `None` if that is not in the program's code.
    pub(crate) fn locate(&self, address: usize) -> Option<Location> {
        let (&start, &index) = self.addresses.range(..=address).next_back()?;
        let module = self.module(index);
        let at = (address - start) / size_of::<Code>();
        if at >= module.code.len() {
            return None;
        }
        let first = module.first_function as usize;
        let count = module.module().functions.len();
        let functions = &self.functions[first..][..count];
        let place = functions.partition_point(|f| f.first <= at) - 1;
        let function = FunctionId((first + place) as u32);
        Some(Location { function, instruction: at - functions[place].first })
    }

    /// The source line of an instruction, 0 if unknown, and the path of the file.
    pub(crate) fn line(&self, location: Location) -> (u32, &str) {
        let function = self.source(location.function);
        let module = self.module(self.functions[location.function.0 as usize].module).module();
        let file = module.files.get(function.file as usize).map_or("", |file| file);
        (function.line(location.instruction), file)
    }

    /// Which registers hold references before an instruction: bit `i % 64` of word `i / 64` is for
    /// register `i`. May be called from several threads.
    pub(crate) fn references(&self, location: Location) -> &[u64] {
        let linked = &self.functions[location.function.0 as usize];
        let maps = self.module(linked.module).verified.maps(linked.function);
        maps.references(location.instruction)
    }
}

impl LinkedModule {
    /// The module as it was before linking.
    pub(crate) fn module(&self) -> &Module {
        self.verified.module()
    }

    /// A function of the module, in the program.
    pub(crate) fn function(&self, function: FunctionId) -> FunctionId {
        FunctionId(self.first_function + function.0)
    }

    /// The module's `main`, in the program.
    pub(crate) fn main(&self) -> Option<FunctionId> {
        self.module().main.map(|main| self.function(main))
    }

    /// A type of the module, in the program.
    pub(crate) fn ty(&self, ty: TypeId) -> TypeId {
        self.types[ty.0 as usize]
    }
}

/// One module on its way in.
struct Linker<'a> {
    program: &'a mut Program,
    module: &'a Module,
    first_function: u32,
    /// Program-wide ids, by the module's.
    types: Vec<TypeId>,
    classes: Vec<ClassId>,
    interfaces: Vec<InterfaceId>,
    enums: Vec<EnumId>,
    selectors: Vec<SelectorId>,
    texts: Vec<u32>,
    words: Vec<u32>,
    natives: Vec<u32>,
}

/// What linking a module makes.
struct Output {
    types: Vec<TypeId>,
    code: Vec<Code>,
    functions: Vec<LinkedFunction>,
    switches: Vec<LinkedSwitch>,
}

impl<'a> Linker<'a> {
    fn new(program: &'a mut Program, module: &'a Module, first_function: u32) -> Linker<'a> {
        Linker {
            program,
            module,
            first_function,
            types: Vec::with_capacity(module.types.len()),
            classes: Vec::new(),
            interfaces: Vec::new(),
            enums: Vec::new(),
            selectors: Vec::new(),
            texts: Vec::new(),
            words: Vec::new(),
            natives: Vec::new(),
        }
    }

    fn run(mut self, index: u32) -> Result<Output, TooMany> {
        self.number_definitions();
        self.intern_types();
        self.intern_selectors()?;
        self.define();
        self.intern_constants();
        let mut functions = Vec::with_capacity(self.module.functions.len());
        let mut switches = Vec::new();
        let len = self.module.functions.iter().map(|f| f.code.len()).sum();
        let mut code = Vec::with_capacity(len);
        for (i, function) in self.module.functions.iter().enumerate() {
            let id = FunctionId(self.first_function + i as u32);
            let first_switch = (self.program.switches.len() + switches.len()) as u32;
            switches.extend(
                function.switches.iter().map(|s| LinkedSwitch { function: id, table: s.clone() }),
            );
            let handler = |h: &Handler| Handler { ty: self.types[h.ty.0 as usize], ..*h };
            functions.push(LinkedFunction {
                module: index,
                function: FunctionId(i as u32),
                registers: function.registers,
                first: code.len(),
                len: function.code.len(),
                handlers: function.handlers.iter().map(handler).collect(),
            });
            for &instruction in &function.code {
                code.push(self.instruction(instruction, first_switch)?);
            }
        }
        Ok(Output { types: self.types, code, functions, switches })
    }

    /// Gives program-wide ids to what belongs to the module; the definitions follow when all types
    /// are known.
    fn number_definitions(&mut self) {
        let (from, to) = (&self.module.types, &self.program.types);
        let own = ExceptionClass::ALL.len()..from.classes.len();
        let new = to.classes.len() as u32..;
        self.classes = (0..ExceptionClass::ALL.len() as u32)
            .map(ClassId)
            .chain(new.zip(own).map(|(id, _)| ClassId(id)))
            .collect();
        let first = to.interfaces.len() as u32;
        self.interfaces =
            (0..from.interfaces.len() as u32).map(|i| InterfaceId(first + i)).collect();
        let first = to.enums.len() as u32;
        self.enums = (0..from.enums.len() as u32).map(|i| EnumId(first + i)).collect();
    }

    /// A type consists of types with smaller ids, as the verifier has seen.
    fn intern_types(&mut self) {
        for ty in self.module.types.types() {
            let ty = match ty {
                Type::Enum(id) => Type::Enum(self.enums[id.0 as usize]),
                Type::Struct(id) => Type::Struct(self.classes[id.0 as usize]),
                Type::Class(id) => Type::Class(self.classes[id.0 as usize]),
                Type::Interface(id) => Type::Interface(self.interfaces[id.0 as usize]),
                &Type::Array(of) => Type::Array(self.ty(of)),
                &Type::List(of) => Type::List(self.ty(of)),
                &Type::Dict(key, value) => Type::Dict(self.ty(key), self.ty(value)),
                &Type::Channel(of) => Type::Channel(self.ty(of)),
                &Type::Future(of) => Type::Future(self.ty(of)),
                &Type::Promise(of) => Type::Promise(self.ty(of)),
                Type::Func(signature) => Type::Func(self.signature(signature)),
                other => other.clone(),
            };
            let id = self.program.types.intern(ty);
            self.types.push(id);
        }
    }

    fn ty(&self, id: TypeId) -> TypeId {
        self.types[id.0 as usize]
    }

    fn signature(&self, signature: &Signature) -> Signature {
        let param = |p: &Param| Param { ty: self.ty(p.ty), out: p.out };
        Signature {
            params: signature.params.iter().map(param).collect(),
            result: self.ty(signature.result),
        }
    }

    /// Selectors are shared by name and signature: only 65,536 fit where a method is bound.
    fn intern_selectors(&mut self) -> Result<(), TooMany> {
        for def in &self.module.types.selectors {
            let key = (def.name.clone(), self.signature(&def.signature));
            let list = &mut self.program.types.selectors;
            let index = intern(&mut self.program.interned.selectors, key, |(name, signature)| {
                list.push(SelectorDef { name, signature });
                list.len() as u32 - 1
            });
            self.selectors.push(SelectorId(index));
        }
        Ok(())
    }

    fn define(&mut self) {
        let (from, function) = (&self.module.types, self.first_function);
        for class in &from.classes[ExceptionClass::ALL.len()..] {
            let class = ClassDef {
                name: class.name.clone(),
                base: class.base.map(|base| self.classes[base.0 as usize]),
                is_struct: class.is_struct,
                fields: class
                    .fields
                    .iter()
                    .map(|f| FieldDef { name: f.name.clone(), ty: self.ty(f.ty) })
                    .collect(),
                vtable: class
                    .vtable
                    .iter()
                    .map(|method| match *method {
                        Method::Native => Method::Native,
                        Method::Script(id) => Method::Script(FunctionId(function + id.0)),
                    })
                    .collect(),
                selectors: class
                    .selectors
                    .iter()
                    .map(|&(s, id)| (self.selectors[s.0 as usize], FunctionId(function + id.0)))
                    .collect(),
                interfaces: class
                    .interfaces
                    .iter()
                    .map(|i| self.interfaces[i.0 as usize])
                    .collect(),
            };
            self.program.types.classes.push(class);
        }
        for interface in &from.interfaces {
            let selectors = interface.selectors.iter().map(|s| self.selectors[s.0 as usize]);
            let interface =
                InterfaceDef { name: interface.name.clone(), selectors: selectors.collect() };
            self.program.types.interfaces.push(interface);
        }
        self.program.types.enums.extend(from.enums.iter().map(EnumDef::clone));
    }

    fn intern_constants(&mut self) {
        let interned = &mut self.program.interned;
        for text in &self.module.strings {
            let list = &mut self.program.texts;
            let index = match interned.texts.get(&**text) {
                Some(&index) => index,
                None => {
                    let text: Arc<str> = text.as_str().into();
                    list.push(text.clone());
                    interned.texts.insert(text, list.len() as u32 - 1);
                    list.len() as u32 - 1
                }
            };
            self.texts.push(index);
        }
        for &word in &self.module.words {
            let list = &mut self.program.words;
            self.words.push(intern(&mut interned.words, word, |word| {
                list.push(word);
                list.len() as u32 - 1
            }));
        }
        for native in &self.module.natives {
            let key = (native.name.clone(), self.signature(&native.signature));
            let list = &mut self.program.natives;
            let interned = &mut self.program.interned.natives;
            self.natives.push(intern(interned, key, |(name, signature)| {
                list.push(NativeImport { name, signature });
                list.len() as u32 - 1
            }));
        }
    }

    fn instruction(&mut self, code: Code, first_switch: u32) -> Result<Code, TooMany> {
        let op = code.op().expect("a verified operation");
        let mut linked = code;
        for &(operand, place) in op.operands() {
            let value = code.field(place);
            let (new, what) = match operand {
                Operand::Ty => (self.type_operand(op, TypeId(value)), "types"),
                Operand::Cls => (self.class_operand(ClassId(value)), "types"),
                Operand::Fun if place == Place::X => (self.first_function + value, "functions"),
                Operand::Fun => {
                    let id = FunctionId(self.first_function + value);
                    let list = &mut self.program.bound;
                    let bound = intern(&mut self.program.interned.bound, id, |id| {
                        list.push(id);
                        list.len() as u32 - 1
                    });
                    (bound, "functions bound to an object")
                }
                Operand::Str => (self.texts[value as usize], "text constants"),
                Operand::Word => (self.words[value as usize], "constants"),
                Operand::Nat => (self.natives[value as usize], "natives"),
                Operand::Sel => (self.selectors[value as usize].0, "methods of interfaces"),
                Operand::Sw => (first_switch + value, "switches"),
                _ => continue,
            };
            linked = linked.with_field(place, new).ok_or_else(|| TooMany {
                module: self.module.name.clone(),
                what,
                limit: u16::MAX.into(),
            })?;
        }
        Ok(linked)
    }

    fn type_operand(&self, op: Op, ty: TypeId) -> u32 {
        let boxed = matches!(op, Op::Box | Op::Unbox);
        match self.module.types.get(ty) {
            Type::Enum(_) if boxed => TypeIndex::of(known::INT).0,
            _ => TypeIndex::of(self.ty(ty)).0,
        }
    }

    fn class_operand(&self, class: ClassId) -> u32 {
        let linked = self.classes[class.0 as usize];
        let types = &self.program.types;
        let ty = if self.module.types.class(class).is_struct {
            types.find(&Type::Struct(linked))
        } else {
            types.find(&Type::Class(linked))
        };
        TypeIndex::of(ty.expect("the verifier has seen that every class that is made has a type")).0
    }
}

/// The number of a key, which `add` gives if it is new.
fn intern<K: Hash + Eq + Clone>(
    map: &mut HashMap<K, u32>,
    key: K,
    add: impl FnOnce(K) -> u32,
) -> u32 {
    if let Some(&index) = map.get(&key) {
        return index;
    }
    let index = add(key.clone());
    map.insert(key, index);
    index
}

#[cfg(test)]
mod tests {
    use super::super::module::FunctionKind;
    use super::*;

    fn function(name: &str, code: Vec<Code>) -> Function {
        Function {
            name: name.into(),
            signature: Signature { params: Vec::new(), result: known::VOID },
            registers: 2,
            code,
            handlers: Vec::new(),
            switches: vec![Switch { first: 0, targets: vec![1], default: 1 }],
            file: 0,
            lines: vec![(0, 3), (1, 5)],
            locals: Vec::new(),
            kind: FunctionKind::Free,
        }
    }

    /// A class of its own, a list of it, and two functions that use everything.
    fn module(name: &str) -> Module {
        let mut types = TypeTable::new();
        let class = ClassId(types.classes.len() as u32);
        types.classes.push(ClassDef {
            name: format!("{name}.C"),
            base: None,
            is_struct: false,
            fields: vec![FieldDef { name: "n".into(), ty: known::INT }],
            vtable: vec![Method::Native, Method::Native, Method::Script(FunctionId(1))],
            selectors: Vec::new(),
            interfaces: Vec::new(),
        });
        let ty = types.intern(Type::Class(class));
        let list = types.intern(Type::List(ty));
        let ints = types.intern(Type::List(known::INT));
        let direction = types.enums.len() as u32;
        types.enums.push(EnumDef { name: "E".into(), members: Vec::new() });
        let direction = types.intern(Type::Enum(EnumId(direction)));
        let first = vec![
            Code::ax(Op::Text, 0, 1),
            Code::ax(Op::NewContainer, 0, list.0),
            Code::ax(Op::NewContainer, 0, ints.0),
            Code::ax(Op::New, 0, class.0),
            Code::abc(Op::Box, 0, 1, direction.0 as u16),
            Code::ax(Op::Call, 1, 1),
            Code::abc(Op::Bind, 0, 1, 1),
            Code::ax(Op::Switch, 0, 0),
        ];
        Module {
            name: name.into(),
            types,
            functions: vec![
                function("first", first),
                function("second", vec![Code::abc(Op::ReturnVoid, 0, 0, 0)]),
            ],
            strings: vec!["shared".into(), name.into()],
            words: vec![1 << 40],
            natives: Vec::new(),
            main: Some(FunctionId(0)),
            files: vec![format!("{name}.n")],
        }
    }

    fn program() -> Program {
        let mut program = Program::new();
        for name in ["a", "b"] {
            program.link(Verified::trusted(module(name))).unwrap();
        }
        program
    }

    #[test]
    fn types_are_shared_by_structure_and_classes_by_nothing() {
        let program = program();
        let code = |function| program.code(FunctionId(function));
        let (a, b) = (code(0), code(2));
        assert_eq!(a[2], b[2], "List<int>");
        assert_ne!(a[1], b[1], "List<C>");
        assert_ne!(a[3], b[3], "C");
        assert_eq!(program.types.name(TypeIndex(b[3].x()).id().unwrap()), "b.C");
        assert_eq!(TypeIndex(b[4].c().into()), TypeIndex::of(known::INT));
        let exceptions = program.types.classes.iter().filter(|c| c.name == "Exception");
        assert_eq!(exceptions.count(), 1);
    }

    #[test]
    fn indices_become_those_of_the_program() {
        let program = program();
        let second = program.code(FunctionId(2));
        assert_eq!(&*program.texts[second[0].x() as usize], "b");
        assert_eq!(program.texts.len(), 3, "a text that both modules have is there once");
        assert_eq!(second[5].x(), 3);
        assert_eq!(program.bound[usize::from(second[6].c())], FunctionId(3));
        assert_eq!(program.switches[second[7].x() as usize].function, FunctionId(2));
        assert_eq!(program.module(1).main(), Some(FunctionId(2)));
        let class = &program.types.classes[ExceptionClass::ALL.len() + 1];
        assert_eq!(class.vtable[2], Method::Script(FunctionId(3)));
    }

    #[test]
    fn an_address_in_the_code_names_function_instruction_and_line() {
        let program = program();
        for (id, function) in program.functions.iter().enumerate() {
            let function_id = FunctionId(id as u32);
            for (i, code) in program.code(function_id).iter().enumerate() {
                let found = program.locate(std::ptr::from_ref(code).addr());
                assert_eq!(found, Some(Location { function: function_id, instruction: i }));
            }
            assert_eq!(function.module, id as u32 / 2);
        }
        let location = Location { function: FunctionId(2), instruction: 4 };
        assert_eq!(program.line(location), (5, "b.n"));
        assert_eq!(program.locate(8), None);
        assert_eq!(program.locate(usize::MAX), None);
    }

    #[test]
    fn a_module_that_does_not_fit_is_refused_and_the_rest_goes_on() {
        let mut program = program();
        let mut large = module("large");
        for i in 0..70_000 {
            large.types.enums.push(EnumDef { name: format!("E{i}"), members: Vec::new() });
            large.types.intern(Type::Enum(EnumId(i + 1)));
        }
        program.link(Verified::trusted(large)).unwrap();
        let mut next = module("next");
        let own = next.types.intern(Type::Array(known::LONG));
        next.functions[0].code = vec![Code::abc(Op::NewArray, 0, 1, own.0 as u16)];
        let error = program.link(Verified::trusted(next)).unwrap_err();
        assert_eq!((error.module.as_str(), error.what), ("next", "types"));
        assert_eq!(program.module_count(), 3);
        let refused = program.types.classes.last().unwrap();
        assert!(refused.vtable.iter().all(|m| *m == Method::Native));
        program.link(Verified::trusted(module("last"))).unwrap();
    }
}
