//! What a register holds, as far as the verifier knows, and what may be stored where.

use crate::vm::types::{ClassId, Type, TypeId, TypeTable, known};

/// What a register holds.
///
/// They are ordered: [`Kind::UNREADABLE`] is above all others, [`Kind::ANY`] above the references
/// but strings, `Object` above classes and the other types that are assignable to it, a class above
/// its subclasses. [`Kinds::join`] gives the lowest kind above two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u32);

impl Kind {
    /// Never set, or not by all ways that lead here.
    pub(super) const UNREADABLE: Kind = Kind(0);
    /// No reference.
    pub(super) const WORD: Kind = Kind(1);
    /// A reference, but not of a string, or null: can be compared, tested and shown.
    pub(super) const ANY: Kind = Kind(2);
    pub(super) const STRING: Kind = Kind::reference(known::STRING);
    pub(super) const OBJECT: Kind = Kind::reference(known::OBJECT);

    /// A reference of a type, or null unless it is a struct.
    pub(super) const fn reference(ty: TypeId) -> Kind {
        Kind(ty.0 + 3)
    }

    /// The type of the reference, where there is one.
    pub(super) fn ty(self) -> Option<TypeId> {
        self.0.checked_sub(3).map(TypeId)
    }

    pub(super) fn is_reference(self) -> bool {
        self.0 >= Kind::ANY.0
    }
}

/// How the classes of a module derive from one another.
///
/// Classes are numbered by a walk through their trees, a base before what is below it. So the classes
/// below one have consecutive numbers, and nobody climbs from class to class to compare two.
#[derive(Debug)]
pub(super) struct Lineage {
    /// For each class its number, and the one behind those of the classes below it.
    numbers: Vec<(u32, u32)>,
    /// The type of each class or struct, if it has one.
    types: Vec<Option<TypeId>>,
}

impl Lineage {
    /// Of a table in which every class comes after its base, and types name classes that exist.
    pub(super) fn new(types: &TypeTable) -> Lineage {
        let base = |i: usize| types.classes[i].base.map(|base| base.0 as usize);
        // How many classes there are from each one down.
        let mut sizes = vec![1; types.classes.len()];
        for i in (0..sizes.len()).rev() {
            if let Some(base) = base(i) {
                sizes[base] += sizes[i];
            }
        }
        // The number that the next class right below each one gets.
        let mut next = Vec::with_capacity(sizes.len());
        let mut next_root = 0;
        let mut numbers = Vec::with_capacity(sizes.len());
        for (i, &size) in sizes.iter().enumerate() {
            let number = match base(i) {
                Some(base) => &mut next[base],
                None => &mut next_root,
            };
            let first = *number;
            *number += size;
            next.push(first + 1);
            numbers.push((first, first + size));
        }
        let mut class_types = vec![None; sizes.len()];
        for (i, ty) in types.types().iter().enumerate() {
            if let Type::Class(class) | Type::Struct(class) = ty {
                class_types[class.0 as usize] = Some(TypeId(i as u32));
            }
        }
        Lineage { numbers, types: class_types }
    }

    /// Whether a class is another one or derives from it.
    pub(super) fn derives(&self, class: ClassId, from: ClassId) -> bool {
        let (first, end) = self.numbers[from.0 as usize];
        (first..end).contains(&self.numbers[class.0 as usize].0)
    }
}

/// Kinds in the light of a module's types, all of whose tables have been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds<'m> {
    pub(super) types: &'m TypeTable,
    pub(super) lineage: &'m Lineage,
}

impl Kinds<'_> {
    /// The type of a class or struct, if the table has it.
    pub(super) fn class_type(&self, class: ClassId) -> Option<TypeId> {
        self.lineage.types[class.0 as usize]
    }

    /// The kind of a value of a type.
    pub(super) fn of(&self, ty: TypeId) -> Kind {
        if self.types.is_reference(ty) { Kind::reference(ty) } else { Kind::WORD }
    }

    /// Whether values of a type are also values of `Object`.
    pub(super) fn is_object(&self, ty: TypeId) -> bool {
        matches!(
            self.types.get(ty),
            Type::Object
                | Type::Class(_)
                | Type::Interface(_)
                | Type::List(_)
                | Type::Dict(..)
                | Type::Channel(_)
                | Type::Future(_)
                | Type::Promise(_)
                | Type::Opaque(_)
        )
    }

    /// Whether what a register holds may be stored as a value of a type.
    pub(super) fn assignable(&self, kind: Kind, to: TypeId) -> bool {
        if kind == Kind::WORD {
            return !self.types.is_reference(to) && to != known::VOID;
        }
        let Some(from) = kind.ty() else { return false };
        if from == to {
            return true;
        }
        match (self.types.get(from), self.types.get(to)) {
            (&Type::Class(class), &Type::Class(base)) => self.lineage.derives(class, base),
            (_, Type::Object | Type::Interface(_)) => self.is_object(from),
            _ => false,
        }
    }

    /// What a register holds where two ways meet. Adds to `work` how many classes it went up from the
    /// first.
    pub(super) fn join(&self, one: Kind, other: Kind, work: &mut usize) -> Kind {
        if one == other {
            return one;
        }
        if !one.is_reference()
            || !other.is_reference()
            || one == Kind::STRING
            || other == Kind::STRING
        {
            return Kind::UNREADABLE;
        }
        let (Some(a), Some(b)) = (one.ty(), other.ty()) else { return Kind::ANY };
        match (self.types.get(a), self.types.get(b)) {
            (&Type::Class(a), &Type::Class(b)) => self.common_base(a, b, work),
            _ if self.is_object(a) && self.is_object(b) => Kind::OBJECT,
            _ => Kind::ANY,
        }
    }

    /// A class that no type names is passed over: nothing could ask for it.
    fn common_base(&self, one: ClassId, other: ClassId, work: &mut usize) -> Kind {
        let mut class = Some(one);
        while let Some(id) = class {
            if self.lineage.derives(other, id)
                && let Some(ty) = self.class_type(id)
            {
                return Kind::reference(ty);
            }
            *work += 1;
            class = self.types.class(id).base;
        }
        Kind::OBJECT
    }

    /// As messages say it.
    pub(super) fn describe(&self, kind: Kind) -> String {
        match kind {
            Kind::UNREADABLE => "nothing that can be read".into(),
            Kind::WORD => "a word".into(),
            Kind::ANY => "a reference of no certain type".into(),
            _ => format!("a {}", self.types.name(kind.ty().unwrap_or(known::OBJECT))),
        }
    }
}
