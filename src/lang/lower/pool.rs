//! What the functions of a module share: types, constants, imports.

use std::collections::HashMap;

use crate::vm::module::NativeImport;
use crate::vm::types::{ClassId, FunctionId, Method, Param, Signature, Type, TypeId, TypeTable};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) types: TypeTable,
    pub(super) strings: Vec<String>,
    pub(super) words: Vec<u64>,
    /// The imports of the module: what its instructions call.
    pub(super) natives: Vec<NativeImport>,
    /// The natives that the program calls; some of them are instructions.
    pub(super) called: Vec<NativeImport>,
    /// The import for each of these, once there is one.
    imported: Vec<Option<u32>>,
    string_ids: HashMap<String, u32>,
    word_ids: HashMap<u64, u32>,
    /// Imports that lowering added, by name and receiver.
    native_ids: HashMap<(&'static str, TypeId), u32>,
    /// For a class and a virtual slot: the method that every object of the class has there, if they
    /// all have the same.
    only_methods: HashMap<(ClassId, u16), Option<FunctionId>>,
}

impl Pool {
    pub(super) fn new(types: TypeTable, called: Vec<NativeImport>) -> Pool {
        Pool {
            types,
            strings: Vec::new(),
            words: Vec::new(),
            natives: Vec::new(),
            imported: vec![None; called.len()],
            called,
            string_ids: HashMap::new(),
            word_ids: HashMap::new(),
            native_ids: HashMap::new(),
            only_methods: HashMap::new(),
        }
    }

    /// The index of a text constant.
    pub(super) fn string(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        let id = self.strings.len() as u32;
        self.strings.push(text.into());
        self.string_ids.insert(text.into(), id);
        id
    }

    /// The index of a word constant.
    pub(super) fn word(&mut self, word: u64) -> u32 {
        *self.word_ids.entry(word).or_insert_with(|| {
            self.words.push(word);
            self.words.len() as u32 - 1
        })
    }

    /// The import of a method of a built-in type that the source does not name.
    pub(super) fn native(
        &mut self,
        name: &'static str,
        receiver: TypeId,
        params: &[TypeId],
        result: TypeId,
    ) -> u32 {
        if let Some(&id) = self.native_ids.get(&(name, receiver)) {
            return id;
        }
        let types = std::iter::once(receiver).chain(params.iter().copied());
        let params = types.map(|ty| Param { ty, out: false });
        let import = NativeImport {
            name: name.into(),
            signature: Signature { params: params.collect(), result },
        };
        let id = self.import(import);
        self.native_ids.insert((name, receiver), id);
        id
    }

    /// The import for a native function that the program calls.
    pub(super) fn called(&mut self, native: u32) -> u32 {
        if let Some(id) = self.imported[native as usize] {
            return id;
        }
        let id = self.import(self.called[native as usize].clone());
        self.imported[native as usize] = Some(id);
        id
    }

    fn import(&mut self, import: NativeImport) -> u32 {
        let known = self.natives.iter().position(|native| *native == import);
        let id = known.unwrap_or_else(|| {
            self.natives.push(import);
            self.natives.len() - 1
        });
        id as u32
    }

    /// The one method that a virtual call on a value of a class can reach, if there is only one.
    pub(super) fn only_method(&mut self, class: ClassId, slot: u16) -> Option<FunctionId> {
        if let Some(&known) = self.only_methods.get(&(class, slot)) {
            return known;
        }
        let of = |class: ClassId| match self.types.class(class).vtable.get(slot as usize) {
            Some(&Method::Script(function)) => Some(function),
            _ => None,
        };
        let method = of(class);
        let classes = (0..self.types.classes.len() as u32).map(ClassId);
        let overridden = classes
            .filter(|&other| of(other) != method)
            .any(|other| !self.types.class(other).is_struct && self.types.derives(other, class));
        let only = method.filter(|_| !overridden);
        self.only_methods.insert((class, slot), only);
        only
    }

    /// The class of a class type.
    pub(super) fn class_of(&self, ty: TypeId) -> Option<ClassId> {
        match self.types.get(ty) {
            &Type::Class(class) => Some(class),
            _ => None,
        }
    }
}
