//! New objects: `new C(args)`, `C(args)`, `{…}`, `[…]`, `new T[n]`.

use crate::lang::ast::{self, EntryKey, NewInit};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, Conversion, ExprKind};
use crate::lang::source::Span;
use crate::vm::types::{
    ClassDef, ClassId, ExceptionClass, FunctionId, Method, Type, TypeId, known,
};

use super::Checker;
use super::overload::CheckedArg;
use super::tables::{ClassInfo, ERROR};
use super::value::{Checked, Value, expr};

/// Slots of the fields of exceptions.
pub(super) const MESSAGE: u16 = 0;
pub(super) const BACKTRACE: u16 = 1;

/// What a new object is made of.
struct Made {
    constructor: Option<FunctionId>,
    args: Vec<hir::Arg>,
    fields: Vec<(u16, hir::Expr)>,
}

impl<'a> Checker<'a> {
    pub(super) fn new_object(
        &mut self,
        ty: &'a ast::TypeExpr,
        init: &'a NewInit,
        span: Span,
    ) -> Value {
        let resolved = self.resolve_type(self.body.unit, ty);
        match init {
            NewInit::Args(args) => self.construct(resolved, args, ty.span, span),
            NewInit::Braces(entries) => {
                let value = self.coerce(Checked::Braces(entries, span), resolved);
                Value { expr: value, literal: None, is_place: false }
            }
        }
    }

    /// `T(args)`.
    pub(super) fn construct(
        &mut self,
        ty: TypeId,
        args: &'a [ast::Arg],
        name_span: Span,
        span: Span,
    ) -> Value {
        let args = self.check_args(args);
        let result = match *self.ty(ty) {
            _ if ty == ERROR => {
                self.discard_args(args);
                None
            }
            Type::Class(id) => {
                let made = self.construct_class(id, args, name_span);
                made.map(|Made { constructor, args, fields }| ExprKind::New {
                    class: id,
                    constructor,
                    args,
                    fields,
                })
            }
            Type::Struct(id) => {
                let is_empty = self.no_args(args, name_span, "list the fields in braces instead");
                let (constructor, args, fields) = (None, Vec::new(), Vec::new());
                is_empty.then_some(ExprKind::New { class: id, constructor, args, fields })
            }
            Type::List(_) | Type::Dict(..) => self
                .no_args(args, name_span, "list the elements in braces instead")
                .then_some(ExprKind::NewContainer),
            Type::Object => {
                let is_empty =
                    self.no_args(args, name_span, "convert to `Object` by `… as Object`");
                if is_empty {
                    return self.new_plain_object(span);
                }
                None
            }
            _ => match self.construct_native(ty, args, name_span, span) {
                Ok(value) => return value,
                Err(args) => {
                    self.discard_args(args);
                    self.not_constructible(ty, name_span);
                    None
                }
            },
        };
        match result {
            Some(kind) => Value::new(kind, ty, span),
            None => Value::new(ExprKind::Zero, ty, span),
        }
    }

    fn no_args(&mut self, args: Vec<CheckedArg<'a>>, name_span: Span, hint: &str) -> bool {
        if args.is_empty() {
            return true;
        }
        self.report(Diagnostic::error(name_span, "no arguments are possible here").hint(hint));
        self.discard_args(args);
        false
    }

    fn not_constructible(&mut self, ty: TypeId, span: Span) {
        let name = self.name(ty);
        let message = match self.ty(ty) {
            Type::Interface(_) => format!("`{name}` is an interface: it has no objects of its own"),
            Type::Func(_) => "a function value is not made by `new`: name a function".into(),
            Type::Array(_) => "the length of a new array stands in brackets".into(),
            Type::Enum(_) => format!("`{name}` is an enum: name one of its members"),
            _ => format!("`{name}` cannot be made by `new`"),
        };
        self.error(span, message);
    }

    /// An object that is nothing but itself.
    fn new_plain_object(&mut self, span: Span) -> Value {
        let class = match self.object_class {
            Some(class) => class,
            None => {
                let class = ClassId(self.types.classes.len() as u32);
                self.types.classes.push(ClassDef {
                    name: "Object".into(),
                    base: None,
                    is_struct: false,
                    fields: Vec::new(),
                    vtable: vec![Method::Native; 3],
                    selectors: Vec::new(),
                    interfaces: Vec::new(),
                });
                let slots = self.object_methods.clone();
                self.tables.classes.push(ClassInfo { slots, ..ClassInfo::default() });
                *self.object_class.insert(class)
            }
        };
        let ty = self.types.intern(Type::Class(class));
        let (constructor, args, fields) = (None, Vec::new(), Vec::new());
        let kind = ExprKind::New { class, constructor, args, fields };
        let value = Box::new(expr(kind, ty, span));
        let conversion = Conversion::Upcast;
        Value::new(ExprKind::Convert { conversion, value }, known::OBJECT, span)
    }

    pub(super) fn is_exception(&self, class: ClassId) -> bool {
        self.types.derives(class, ExceptionClass::Exception.class())
    }

    /// What a new object of a class is made of: constructor, its arguments, fields.
    fn construct_class(
        &mut self,
        id: ClassId,
        args: Vec<CheckedArg<'a>>,
        name_span: Span,
    ) -> Option<Made> {
        let constructors = self.tables.class(id).constructors.clone();
        if !constructors.is_empty() {
            let Some((chosen, places)) = self.choose(&constructors, &args, name_span) else {
                self.discard_args(args);
                return None;
            };
            self.check_function_access(chosen, name_span);
            let args = self.fill_params(chosen, places, args);
            let constructor = self.tables.function(chosen).code;
            return Some(Made { constructor, args, fields: Vec::new() });
        }
        if self.is_exception(id) {
            let message = self.exception_message(args, name_span)?;
            let strings = expr(ExprKind::NewContainer, known::STRINGS, name_span);
            let mut fields = vec![(BACKTRACE, strings)];
            fields.extend(message.map(|message| (MESSAGE, message)));
            return Some(Made { constructor: None, args: Vec::new(), fields });
        }
        if !args.is_empty() {
            let name = self.types.class(id).name.clone();
            let message = format!("class `{name}` has no constructor that takes arguments");
            let declared = self.class_span(id);
            self.report(
                Diagnostic::error(name_span, message).label(declared, "it is declared here"),
            );
            self.discard_args(args);
            return None;
        }
        Some(Made { constructor: None, args: Vec::new(), fields: Vec::new() })
    }

    /// The argument of the constructor that exceptions have: a message, or nothing.
    pub(super) fn exception_message(
        &mut self,
        mut args: Vec<CheckedArg<'a>>,
        name_span: Span,
    ) -> Option<Option<hir::Expr>> {
        let wrong = args.len() > 1
            || args.iter().any(|arg| arg.is_out || arg.name.is_some_and(|n| n.text != "message"));
        if wrong {
            self.error(name_span, "the constructor of exceptions takes one string, or nothing");
            self.discard_args(args);
            return None;
        }
        Some(args.pop().map(|arg| self.coerce(arg.checked, known::STRING)))
    }

    /// Whether `{…}` can be a value of a type.
    pub(super) fn takes_braces(&self, ty: TypeId) -> bool {
        matches!(
            self.ty(ty),
            Type::Class(_)
                | Type::Struct(_)
                | Type::Array(_)
                | Type::List(_)
                | Type::Dict(..)
                | Type::Channel(_)
                | Type::Future(_)
                | Type::Promise(_)
                | Type::Opaque(_)
        )
    }

    /// `{…}` as a value of a type.
    pub(super) fn braces(
        &mut self,
        entries: &'a [ast::Entry],
        to: TypeId,
        span: Span,
    ) -> hir::Expr {
        let kind = match *self.ty(to) {
            Type::Struct(id) => self.struct_fields(id, entries),
            Type::Class(id) => self.class_fields(id, entries, span),
            Type::Array(element) => Some(self.brace_elements(entries, element)),
            Type::List(_) if entries.is_empty() => Some(ExprKind::NewContainer),
            Type::List(element) => Some(self.brace_elements(entries, element)),
            Type::Dict(..) if entries.is_empty() => Some(ExprKind::NewContainer),
            Type::Dict(key, value) => Some(self.dict_entries(entries, key, value)),
            _ if self.takes_braces(to) && entries.is_empty() => {
                match self.construct_native(to, Vec::new(), span, span) {
                    Ok(value) => return value.expr,
                    Err(_) => {
                        self.not_constructible(to, span);
                        None
                    }
                }
            }
            _ => {
                let name = self.name(to);
                self.error(span, format!("`{{…}}` cannot make a `{name}`"));
                self.discard(Checked::Braces(entries, span));
                None
            }
        };
        match kind {
            Some(kind) => expr(kind, to, span),
            None => Value::error(span).expr,
        }
    }

    fn brace_elements(&mut self, entries: &'a [ast::Entry], element: TypeId) -> ExprKind {
        let mut elements = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(key) = &entry.key {
                self.error(key_span(key), "elements have no names");
            }
            elements.push(self.expr_as(&entry.value, element));
        }
        ExprKind::Elements(elements)
    }

    fn dict_entries(
        &mut self,
        entries: &'a [ast::Entry],
        key_type: TypeId,
        value_type: TypeId,
    ) -> ExprKind {
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let value = self.expr_as(&entry.value, value_type);
            match &entry.key {
                Some(EntryKey::Text(text, span)) => {
                    let text = expr(ExprKind::Text(text.clone()), known::STRING, *span);
                    let key = Value { expr: text, literal: None, is_place: false };
                    list.push((self.coerce_value(key, key_type), value));
                }
                Some(EntryKey::Name(name)) => {
                    let message = "the keys of a Dict initialiser are string literals";
                    let hint = format!("write `\"{}\"`", name.text);
                    self.report(Diagnostic::error(name.span, message).hint(hint));
                }
                None => {
                    self.error(entry.value.span, "an entry of a Dict has a key: `\"key\": value`");
                }
            }
        }
        ExprKind::Entries(list)
    }

    fn struct_fields(&mut self, id: ClassId, entries: &'a [ast::Entry]) -> Option<ExprKind> {
        let positional = entries.iter().any(|entry| entry.key.is_none());
        let fields = if positional {
            self.positional_fields(id, entries)?
        } else {
            self.named_fields(id, entries)
        };
        Some(ExprKind::New { class: id, constructor: None, args: Vec::new(), fields })
    }

    fn positional_fields(
        &mut self,
        id: ClassId,
        entries: &'a [ast::Entry],
    ) -> Option<Vec<(u16, hir::Expr)>> {
        let defs: Vec<TypeId> = self.types.class(id).fields.iter().map(|field| field.ty).collect();
        let name = self.types.class(id).name.clone();
        if let Some(key) = entries.iter().find_map(|entry| entry.key.as_ref()) {
            self.error(key_span(key), "either all fields have names here, or none");
        }
        if let Some(extra) = entries.get(defs.len()) {
            let fields = super::messages::count(defs.len(), "field");
            self.error(extra.value.span, format!("struct `{name}` has only {fields}"));
        }
        let mut fields = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let value = self.expr_as(&entry.value, defs.get(at).copied().unwrap_or(ERROR));
            if at < defs.len() {
                let info = self.tables.class(id).fields[at];
                if !self.may_use(info.reach, None, info.unit) {
                    let field = self.types.class(id).fields[at].name.clone();
                    let field = ast::Name { text: field, span: entry.value.span };
                    self.check_field_access(id, at as u16, &field);
                }
                fields.push((at as u16, value));
            }
        }
        Some(fields)
    }

    fn named_fields(&mut self, id: ClassId, entries: &'a [ast::Entry]) -> Vec<(u16, hir::Expr)> {
        let mut fields: Vec<(u16, hir::Expr)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = match &entry.key {
                Some(EntryKey::Name(name)) => name,
                Some(EntryKey::Text(text, span)) => {
                    let message = "the name of a field stands without quotes";
                    let hint = format!("write `{text}: …`");
                    self.report(Diagnostic::error(*span, message).hint(hint));
                    let value = self.check_expr(&entry.value);
                    self.discard(value);
                    continue;
                }
                None => {
                    let class = &self.types.class(id).name;
                    let message = format!("the fields of `{class}` need names: `name: value`");
                    self.error(entry.value.span, message);
                    let value = self.check_expr(&entry.value);
                    self.discard(value);
                    continue;
                }
            };
            let Some((slot, ty)) = self.find_field(id, &name.text) else {
                let class = &self.types.class(id).name;
                let names = self.types.class(id).fields.iter().map(|f| f.name.clone()).collect();
                let message = format!("`{class}` has no field `{}`", name.text);
                let diagnostic = Diagnostic::error(name.span, message);
                self.report(match self.suggestion(&name.text, names) {
                    Some(other) => diagnostic.hint(format!("did you mean `{other}`?")),
                    None => diagnostic,
                });
                let value = self.check_expr(&entry.value);
                self.discard(value);
                continue;
            };
            self.check_field_access(id, slot, name);
            if fields.iter().any(|(other, _)| *other == slot) {
                self.error(name.span, format!("field `{}` is given twice", name.text));
            }
            let value = self.expr_as(&entry.value, ty);
            fields.push((slot, value));
        }
        fields
    }

    fn class_fields(
        &mut self,
        id: ClassId,
        entries: &'a [ast::Entry],
        span: Span,
    ) -> Option<ExprKind> {
        let made = self.construct_class(id, Vec::new(), span);
        let given = self.named_fields(id, entries);
        let Made { constructor, args, mut fields } = made?;
        fields.extend(given);
        Some(ExprKind::New { class: id, constructor, args, fields })
    }

    /// `[…]` as a value of a type.
    pub(super) fn elements(
        &mut self,
        elements: &'a [ast::Expr],
        to: TypeId,
        span: Span,
    ) -> hir::Expr {
        let element = match *self.ty(to) {
            Type::Array(element) | Type::List(element) => element,
            Type::String => {
                let value = self.untyped_elements(elements, span);
                return self.coerce_value(value, to);
            }
            _ => {
                let name = self.name(to);
                self.error(span, format!("expected `{name}`, found a list of elements"));
                self.discard(Checked::Elements(elements, span));
                return Value::error(span).expr;
            }
        };
        let elements = elements.iter().map(|e| self.expr_as(e, element)).collect();
        expr(ExprKind::Elements(elements), to, span)
    }

    /// `[…]` where nothing says what it is: an array of what its elements are.
    pub(super) fn untyped_elements(&mut self, elements: &'a [ast::Expr], span: Span) -> Value {
        let values: Vec<Value> = elements.iter().map(|e| self.value(e)).collect();
        if values.iter().any(Value::is_error) {
            return Value::error(span);
        }
        let Some(first) = values.first() else {
            self.error(span, "nothing here says what the elements of `[]` are");
            return Value::error(span);
        };
        let mut ty = first.ty();
        for value in &values {
            let is_text = |a, b| b == known::STRING && a != known::NULL;
            let up = self.implicit(value.ty(), value.literal, ty);
            if value.ty() == ty || up.is_some() && !is_text(value.ty(), ty) {
                continue;
            }
            if self.implicit(ty, None, value.ty()).is_some() && !is_text(ty, value.ty()) {
                ty = value.ty();
                continue;
            }
            let (one, other) = (self.name(ty), self.name(value.ty()));
            let message =
                format!("elements are `{one}` and `{other}`: nothing says what they should be");
            self.error(value.span(), message);
            return Value::error(span);
        }
        if ty == known::NULL {
            self.error(span, "nothing here says what the elements of `[…]` are");
            return Value::error(span);
        }
        let array = self.array_of(ty, span);
        if array == ERROR {
            return Value::error(span);
        }
        let elements = values.into_iter().map(|value| self.coerce_value(value, ty)).collect();
        Value::new(ExprKind::Elements(elements), array, span)
    }

    /// `[…]` as a list, where nothing says of what: of what its elements are.
    pub(super) fn untyped_list(&mut self, elements: &'a [ast::Expr], span: Span) -> Value {
        let mut value = self.untyped_elements(elements, span);
        if let Type::Array(element) = *self.ty(value.ty()) {
            value.expr.ty = self.types.intern(Type::List(element));
        }
        value
    }

    /// `new T[n]`.
    pub(super) fn new_array(
        &mut self,
        element: &'a ast::TypeExpr,
        length: &'a ast::Expr,
        span: Span,
    ) -> Value {
        let element_type = self.resolve_type(self.body.unit, element);
        let array = self.array_of(element_type, element.span);
        let length = self.value(length);
        if !length.is_error() && self.implicit(length.ty(), length.literal, known::INT).is_none() {
            let name = self.name(length.ty());
            let message = format!("the length of an array must be `int`, but this is `{name}`");
            self.error(length.span(), message);
            return Value::new(ExprKind::Zero, array, span);
        }
        let length = Box::new(self.coerce_value(length, known::INT));
        Value::new(ExprKind::NewArray { length }, array, span)
    }
}

fn key_span(key: &EntryKey) -> Span {
    match key {
        EntryKey::Name(name) => name.span,
        EntryKey::Text(_, span) => *span,
    }
}
