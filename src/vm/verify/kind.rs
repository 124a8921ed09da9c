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

/// Kinds in the light of a module's types, all of whose tables have been checked.
#[derive(Debug)]
pub(super) struct Kinds<'m> {
    pub(super) types: &'m TypeTable,
    /// How many classes are above each.
    depths: Vec<u32>,
    /// The type of each class or struct, if it has one.
    class_types: Vec<Option<TypeId>>,
}

impl<'m> Kinds<'m> {
    pub(super) fn new(types: &'m TypeTable) -> Kinds<'m> {
        let mut depths = Vec::with_capacity(types.classes.len());
        for class in &types.classes {
            depths.push(class.base.map_or(0, |base| depths[base.0 as usize] + 1));
        }
        let mut class_types = vec![None; types.classes.len()];
        for (i, ty) in types.types().iter().enumerate() {
            if let Type::Class(class) | Type::Struct(class) = ty {
                class_types[class.0 as usize] = Some(TypeId(i as u32));
            }
        }
        Kinds { types, depths, class_types }
    }

    /// The type of a class or struct, if the table has it.
    pub(super) fn class_type(&self, class: ClassId) -> Option<TypeId> {
        self.class_types[class.0 as usize]
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
            (&Type::Class(class), &Type::Class(base)) => self.types.derives(class, base),
            (_, Type::Object | Type::Interface(_)) => self.is_object(from),
            _ => false,
        }
    }

    /// What a register holds where two ways meet.
    pub(super) fn join(&self, one: Kind, other: Kind) -> Kind {
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
            (&Type::Class(a), &Type::Class(b)) => self.common_base(a, b),
            _ if self.is_object(a) && self.is_object(b) => Kind::OBJECT,
            _ => Kind::ANY,
        }
    }

    fn common_base(&self, mut a: ClassId, mut b: ClassId) -> Kind {
        while a != b {
            let (depth_a, depth_b) = (self.depths[a.0 as usize], self.depths[b.0 as usize]);
            let up = |class: ClassId| self.types.class(class).base;
            if depth_a >= depth_b {
                let Some(base) = up(a) else { return Kind::OBJECT };
                a = base;
            } else {
                let Some(base) = up(b) else { return Kind::OBJECT };
                b = base;
            }
        }
        // A class that no type names is passed over: nothing could ask for it.
        let mut class = Some(a);
        while let Some(id) = class {
            if let Some(ty) = self.class_type(id) {
                return Kind::reference(ty);
            }
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
