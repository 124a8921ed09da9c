//! What has to hold of a module's tables, before its code is looked at.
//!
//! Later steps index the tables without tests of their own and walk up bases, into structs and down
//! types without fear of circles: this is where they get the right to.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::kind::Lineage;
use super::{Natives, VerifyError};
use crate::vm::module::Module;
use crate::vm::types::{
    CLASS_DEPTH, ClassDef, ClassId, ExceptionClass, FunctionId, Method, Param, STRUCT_DEPTH,
    STRUCTS, Signature, Type, TypeId, TypeTable, known,
};

/// Fields of a class or struct, and slots of its table of methods.
const MEMBERS: usize = u16::MAX as usize + 1;
/// What every table begins with.
static PREFIX: LazyLock<TypeTable> = LazyLock::new(TypeTable::new);

/// The signature, without the receiver, of a slot that every class has.
pub(super) fn object_signature(slot: usize) -> (&'static [Param], TypeId) {
    const OTHER: &[Param] = &[Param { ty: known::OBJECT, out: false }];
    match slot {
        0 => (OTHER, known::INT),
        1 => (&[], known::INT),
        _ => (&[], known::STRING),
    }
}

/// Checks the tables of types, classes, natives and functions, but not what is in the functions.
/// Returns how the classes are related.
pub(super) fn check(module: &Module, natives: &dyn Natives) -> Result<Lineage, VerifyError> {
    let tables = Tables { module, types: &module.types };
    tables.check_types()?;
    tables.check_signatures()?;
    tables.check_bases()?;
    let lineage = Lineage::new(&module.types);
    let methods = Methods::new(module);
    for index in 0..module.types.classes.len() {
        Class { tables: &tables, lineage: &lineage, methods: &methods, index }
            .check()
            .map_err(|what| VerifyError::new(module, tables.class_place(index), what))?;
    }
    tables.check_structs()?;
    for (i, native) in module.natives.iter().enumerate() {
        if !natives.accepts(native, &module.types) {
            let place = format!("native #{i} {}", native.name);
            return Err(VerifyError::new(
                module,
                place,
                "no native of this name has this signature",
            ));
        }
    }
    tables.check_main()?;
    Ok(lineage)
}

/// Numbers for signatures without the receiver, equal ones for equal signatures: many slots of many
/// classes may name one function, whose parameters are looked at once.
struct Methods {
    /// By function. One without a receiver has the number of no signature.
    functions: Vec<usize>,
    selectors: Vec<usize>,
    /// Of the slots that every class has.
    object: [usize; 3],
}

impl Methods {
    fn new(module: &Module) -> Methods {
        let mut numbers = HashMap::<(&[Param], TypeId), usize>::new();
        let mut number = |params, result| {
            let next = numbers.len();
            *numbers.entry((params, result)).or_insert(next)
        };
        let object = [0, 1, 2].map(|slot| {
            let (params, result) = object_signature(slot);
            number(params, result)
        });
        let selectors = module.types.selectors.iter();
        let selectors =
            selectors.map(|s| number(&s.signature.params, s.signature.result)).collect();
        let functions = module.functions.iter().map(|function| {
            let Signature { params, result } = &function.signature;
            params.get(1..).map_or(usize::MAX, |params| number(params, *result))
        });
        Methods { functions: functions.collect(), selectors, object }
    }
}

struct Tables<'m> {
    module: &'m Module,
    types: &'m TypeTable,
}

/// What is wrong with a part whose place the caller knows.
type Check = Result<(), String>;

impl Tables<'_> {
    fn error(&self, place: String, what: impl Into<String>) -> VerifyError {
        VerifyError::new(self.module, place, what)
    }

    fn class_place(&self, index: usize) -> String {
        format!("class #{index} {}", self.types.classes[index].name)
    }

    fn check_types(&self) -> Result<(), VerifyError> {
        let (types, prefix) = (self.types.types(), PREFIX.types());
        if types.get(..prefix.len()) != Some(prefix) {
            return Err(self.error("the types".into(), "do not begin with the known types"));
        }
        if self.types.classes.get(..PREFIX.classes.len()) != Some(&*PREFIX.classes) {
            return Err(self.error("the classes".into(), "do not begin with the exceptions"));
        }
        for (i, ty) in types.iter().enumerate().skip(prefix.len()) {
            self.check_type(i, ty).map_err(|what| self.error(format!("type #{i}"), what))?;
        }
        Ok(())
    }

    /// Parts of a type come before it, so that no type contains itself.
    fn check_type(&self, index: usize, ty: &Type) -> Check {
        let part = |id: TypeId| {
            if id.0 as usize >= index {
                return Err("consists of types that do not come before it".to_string());
            }
            self.check_value_type(id)
        };
        let class = |id: ClassId, is_struct: bool| match self.types.classes.get(id.0 as usize) {
            Some(class) if class.is_struct == is_struct => Ok(()),
            Some(_) => Err("mistakes a class for a struct or a struct for a class".into()),
            None => Err("names a class that does not exist".to_string()),
        };
        match ty {
            Type::Enum(id) if id.0 as usize >= self.types.enums.len() => {
                Err("names an enum that does not exist".into())
            }
            Type::Interface(id) if id.0 as usize >= self.types.interfaces.len() => {
                Err("names an interface that does not exist".into())
            }
            &Type::Struct(id) => class(id, true),
            &Type::Class(id) => class(id, false),
            &Type::Array(of)
            | &Type::List(of)
            | &Type::Channel(of)
            | &Type::Future(of)
            | &Type::Promise(of) => part(of),
            &Type::Dict(key, value) => {
                part(key)?;
                part(value)?;
                if matches!(self.types.get(key), Type::Func(_)) {
                    return Err("has function values as keys".into());
                }
                Ok(())
            }
            Type::Func(signature) => {
                if signature.result.0 as usize >= index {
                    return Err("consists of types that do not come before it".into());
                }
                signature.params.iter().try_for_each(|param| part(param.ty))?;
                self.check_signature(signature)
            }
            // A second one of these would not be the known one.
            _ => Ok(()),
        }
    }

    /// That a type is one of the table's, and that there are values of it.
    fn check_value_type(&self, id: TypeId) -> Check {
        if id.0 as usize >= self.types.len() {
            return Err(format!("names type #{}, which does not exist", id.0));
        }
        match self.types.get(id) {
            Type::Void | Type::Null => Err(format!("has a part of type {}", self.types.name(id))),
            _ => Ok(()),
        }
    }

    fn check_signature(&self, signature: &Signature) -> Check {
        if signature.result != known::VOID {
            self.check_value_type(signature.result)?;
        }
        signature.params.iter().try_for_each(|param| self.check_value_type(param.ty))
    }

    fn check_signatures(&self) -> Result<(), VerifyError> {
        for (i, function) in self.module.functions.iter().enumerate() {
            self.check_signature(&function.signature)
                .map_err(|what| VerifyError::function(self.module, i, what))?;
        }
        for (i, native) in self.module.natives.iter().enumerate() {
            self.check_signature(&native.signature)
                .map_err(|what| self.error(format!("native #{i} {}", native.name), what))?;
        }
        for (i, selector) in self.types.selectors.iter().enumerate() {
            self.check_signature(&selector.signature)
                .map_err(|what| self.error(format!("selector #{i} {}", selector.name), what))?;
        }
        for (i, interface) in self.types.interfaces.iter().enumerate() {
            let exists = |s: u32| (s as usize) < self.types.selectors.len();
            if !interface.selectors.iter().all(|s| exists(s.0)) {
                let place = format!("interface #{i} {}", interface.name);
                return Err(self.error(place, "names a selector that does not exist"));
            }
        }
        Ok(())
    }

    /// A class comes after its base, and not too deep below `Object`.
    fn check_bases(&self) -> Result<(), VerifyError> {
        let mut depths = Vec::with_capacity(self.types.classes.len());
        for (i, class) in self.types.classes.iter().enumerate() {
            let depth = match class.base {
                None => Ok(0),
                Some(base) => match depths.get(base.0 as usize) {
                    None => Err("does not come after its base"),
                    Some(_) if self.types.class(base).is_struct => Err("has a struct as base"),
                    Some(&CLASS_DEPTH) => Err("has too many classes above it"),
                    Some(depth) => Ok(depth + 1),
                },
            };
            depths.push(depth.map_err(|what| self.error(self.class_place(i), what))?);
        }
        Ok(())
    }

    /// No struct contains itself, and no object is made of too many structs.
    fn check_structs(&self) -> Result<(), VerifyError> {
        let classes = &self.types.classes;
        let mut sizes = vec![Size::Unknown; classes.len()];
        // Depth first, on a stack of our own: class and next field.
        let mut stack = Vec::new();
        for root in 0..classes.len() {
            if sizes[root] != Size::Unknown {
                continue;
            }
            sizes[root] = Size::Open;
            stack.push((root, 0));
            while let Some((class, field)) = stack.pop() {
                let fields = &classes[class].fields;
                let inner = fields[field..].iter().position(|f| self.inner(f.ty).is_some());
                let Some(next) = inner.map(|skip| field + skip) else {
                    sizes[class] = self.size(class, &sizes)?;
                    continue;
                };
                stack.push((class, next + 1));
                let inner = self.inner(fields[next].ty).map_or(0, |id| id.0 as usize);
                match sizes[inner] {
                    Size::Known { .. } => {}
                    Size::Open => {
                        return Err(self.error(self.class_place(inner), "contains itself"));
                    }
                    Size::Unknown => {
                        sizes[inner] = Size::Open;
                        stack.push((inner, 0));
                    }
                }
            }
        }
        Ok(())
    }

    /// The struct that a field of a type contains.
    fn inner(&self, ty: TypeId) -> Option<ClassId> {
        match self.types.get(ty) {
            &Type::Struct(id) => Some(id),
            _ => None,
        }
    }

    fn size(&self, class: usize, sizes: &[Size]) -> Result<Size, VerifyError> {
        let (mut structs, mut depth) = (1u32, 0);
        for field in &self.types.classes[class].fields {
            let Some(inner) = self.inner(field.ty) else { continue };
            if let Size::Known { structs: n, depth: d } = sizes[inner.0 as usize] {
                structs = structs.saturating_add(n);
                depth = depth.max(d + 1);
            }
        }
        if structs > STRUCTS || depth > STRUCT_DEPTH {
            let what = format!(
                "consists of more than {STRUCTS} structs, or more than {STRUCT_DEPTH} in one another"
            );
            return Err(self.error(self.class_place(class), what));
        }
        Ok(Size::Known { structs, depth })
    }

    fn check_main(&self) -> Result<(), VerifyError> {
        let Some(main) = self.module.main else { return Ok(()) };
        let what = match self.module.functions.get(main.0 as usize) {
            None => "does not exist",
            Some(f) if !f.signature.params.is_empty() => "has parameters",
            Some(f) if ![known::VOID, known::INT].contains(&f.signature.result) => {
                "returns neither int nor nothing"
            }
            Some(_) => return Ok(()),
        };
        Err(self.error(format!("main, function #{},", main.0), what))
    }
}

/// One class, of tables whose types and bases are as they should be.
struct Class<'m> {
    tables: &'m Tables<'m>,
    lineage: &'m Lineage,
    methods: &'m Methods,
    index: usize,
}

impl Class<'_> {
    fn class(&self) -> &ClassDef {
        &self.tables.types.classes[self.index]
    }

    fn check(&self) -> Check {
        let class = self.class();
        if class.fields.len() > MEMBERS || class.vtable.len() > MEMBERS {
            return Err(format!("has more than {MEMBERS} fields or virtual methods"));
        }
        class.fields.iter().try_for_each(|field| self.tables.check_value_type(field.ty))?;
        if class.is_struct {
            let plain = class.base.is_none()
                && class.vtable.is_empty()
                && class.selectors.is_empty()
                && class.interfaces.is_empty();
            return if plain { Ok(()) } else { Err("is a struct with base or methods".into()) };
        }
        if let Some(base) = class.base {
            self.check_inherited(class, self.tables.types.class(base))?;
        }
        if class.vtable.len() < 3 {
            return Err("lacks the virtual methods of every class".into());
        }
        for (slot, method) in class.vtable.iter().enumerate() {
            self.check_slot(slot, method)?;
        }
        for &(selector, function) in &class.selectors {
            let Some(def) = self.tables.types.selectors.get(selector.0 as usize) else {
                return Err("implements a selector that does not exist".into());
            };
            if self.method(function)? != self.methods.selectors[selector.0 as usize] {
                return Err(format!("implements {} with another signature", def.name));
            }
        }
        if class.interfaces.iter().any(|i| i.0 as usize >= self.tables.types.interfaces.len()) {
            return Err("implements an interface that does not exist".into());
        }
        Ok(())
    }

    fn check_inherited(&self, class: &ClassDef, base: &ClassDef) -> Check {
        let inherited = class.fields.get(..base.fields.len()).unwrap_or_default();
        if inherited.len() != base.fields.len()
            || inherited.iter().zip(&base.fields).any(|(own, from)| own.ty != from.ty)
        {
            return Err("does not begin with the fields of its base".into());
        }
        if class.vtable.len() < base.vtable.len() {
            return Err("lacks virtual methods of its base".into());
        }
        Ok(())
    }

    /// A slot has one signature in a class and all below it.
    fn check_slot(&self, slot: usize, method: &Method) -> Check {
        let base = self.class().base;
        let above = base.and_then(|base| self.tables.types.class(base).vtable.get(slot));
        let Method::Script(function) = *method else {
            return if slot < 3 { Ok(()) } else { Err(format!("has nothing in slot {slot}")) };
        };
        if above == Some(method) {
            // Checked there; a receiver of the base is one of ours.
            return Ok(());
        }
        let signature = self.method(function)?;
        let fits = match above {
            _ if slot < 3 => signature == self.methods.object[slot],
            Some(&Method::Script(id)) => signature == self.methods.functions[id.0 as usize],
            _ => true,
        };
        if !fits {
            let name = &self.tables.module.functions[function.0 as usize].name;
            return Err(format!("overrides slot {slot} by {name}, which has another signature"));
        }
        Ok(())
    }

    /// The number of the signature of a function as a method of the class: the receiver is the class
    /// or a base.
    fn method(&self, function: FunctionId) -> Result<usize, String> {
        let Some(def) = self.tables.module.functions.get(function.0 as usize) else {
            return Err(format!("has function #{} as method, which does not exist", function.0));
        };
        let class = ClassId(self.index as u32);
        let takes = |param: &Param| match self.tables.types.get(param.ty) {
            Type::Object => !param.out,
            &Type::Class(receiver) => !param.out && self.lineage.derives(class, receiver),
            _ => false,
        };
        match def.signature.params.first() {
            Some(param) if takes(param) => Ok(self.methods.functions[function.0 as usize]),
            _ => Err(format!("has {} as method, which takes no such receiver", def.name)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Unknown,
    /// On the way: to meet it again is a circle.
    Open,
    Known {
        structs: u32,
        depth: u32,
    },
}

/// The exceptions come first, so that their ids are those of every module.
const _: () = assert!(ExceptionClass::Exception as usize == 0);
