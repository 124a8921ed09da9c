//! A readable listing of a module, driven by the list of instructions.
//!
//! It shows everything that a module holds, so it serves to debug the compiler, and is what
//! `pirn disasm` prints. It works on modules that no verifier has seen: an index without an entry is
//! shown with a question mark.
//!
//! ```text
//! func #0 int main()  registers 3  "hello.n"
//!     line 2
//!        0  int          r1, 10
//!        1  jump.le.int  r1, r0, @3
//!        2  loop         @1
//!     [0..2) -> @3  r2 Exception
//! ```

use std::fmt::{self, Display, Formatter, Write};

use super::module::{Function, FunctionKind, Module};
use super::op::{Code, Operand, Place};
use super::types::{ClassDef, Method, Signature, TypeId, TypeTable};

/// The listing of a whole module, as [`Display`].
pub(crate) struct Listing<'a>(pub &'a Module);

/// The listing of one function, as [`Display`].
pub(crate) struct FunctionListing<'a> {
    pub module: &'a Module,
    pub index: usize,
}

/// One instruction as the listing shows it: `add.int r1, r2, r3`.
pub(crate) struct Instruction<'a> {
    pub module: &'a Module,
    pub code: Code,
    /// Its index in the function, from which jumps count.
    pub at: usize,
}

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let module = self.0;
        writeln!(f, "module {:?}", module.name)?;
        if let Some(main) = module.main {
            writeln!(f, "main {}", named(main.0, function_name(module, main.0)))?;
        }
        for (i, file) in module.files.iter().enumerate() {
            writeln!(f, "file #{i} {file:?}")?;
        }
        write_types(f, &module.types)?;
        for (i, native) in module.natives.iter().enumerate() {
            write!(f, "native #{i} ")?;
            write_signature(f, &module.types, &native.signature, &native.name)?;
            writeln!(f)?;
        }
        for (i, word) in module.words.iter().enumerate() {
            writeln!(f, "word #{i} {}", word_text(*word))?;
        }
        for (i, text) in module.strings.iter().enumerate() {
            writeln!(f, "text #{i} {text:?}")?;
        }
        for index in 0..module.functions.len() {
            writeln!(f)?;
            write!(f, "{}", FunctionListing { module, index })?;
        }
        Ok(())
    }
}

fn write_types(f: &mut Formatter<'_>, types: &TypeTable) -> fmt::Result {
    for id in 0..types.len() as u32 {
        writeln!(f, "type #{id} {}", types.name(TypeId(id)))?;
    }
    for (i, def) in types.enums.iter().enumerate() {
        write!(f, "enum #{i} {} {{", def.name)?;
        for (name, value) in &def.members {
            write!(f, " {name} = {value};")?;
        }
        writeln!(f, " }}")?;
    }
    for (i, selector) in types.selectors.iter().enumerate() {
        write!(f, "selector #{i} ")?;
        write_signature(f, types, &selector.signature, &selector.name)?;
        writeln!(f)?;
    }
    for (i, interface) in types.interfaces.iter().enumerate() {
        write!(f, "interface #{i} {} {{", interface.name)?;
        for selector in &interface.selectors {
            let name = types.selectors.get(selector.0 as usize).map(|s| &*s.name);
            write!(f, " {};", named(selector.0, name))?;
        }
        writeln!(f, " }}")?;
    }
    for (i, class) in types.classes.iter().enumerate() {
        write_class(f, types, i, class)?;
    }
    Ok(())
}

fn write_class(
    f: &mut Formatter<'_>,
    types: &TypeTable,
    i: usize,
    class: &ClassDef,
) -> fmt::Result {
    let word = if class.is_struct { "struct" } else { "class" };
    write!(f, "{word} #{i} {}", class.name)?;
    if let Some(base) = class.base {
        write!(f, " : {}", named(base.0, types.classes.get(base.0 as usize).map(|c| &*c.name)))?;
    }
    for (n, id) in class.interfaces.iter().enumerate() {
        let name = types.interfaces.get(id.0 as usize).map(|i| &*i.name);
        write!(f, "{}{}", if n == 0 { " implements " } else { ", " }, named(id.0, name))?;
    }
    write!(f, " {{")?;
    for (slot, field) in class.fields.iter().enumerate() {
        write!(f, " .{slot} {} {};", types.name(field.ty), field.name)?;
    }
    for (slot, method) in class.vtable.iter().enumerate() {
        match method {
            Method::Native => write!(f, " :{slot} native;")?,
            Method::Script(function) => write!(f, " :{slot} #{};", function.0)?,
        }
    }
    for (selector, function) in &class.selectors {
        let name = types.selectors.get(selector.0 as usize).map(|s| &*s.name);
        write!(f, " {} = #{};", named(selector.0, name), function.0)?;
    }
    writeln!(f, " }}")
}

impl Display for FunctionListing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(function) = self.module.functions.get(self.index) else {
            return writeln!(f, "func #{} ?", self.index);
        };
        self.header(f, function)?;
        let mut lines = function.lines.iter().peekable();
        for (at, &code) in function.code.iter().enumerate() {
            while let Some((_, line)) = lines.next_if(|(first, _)| *first as usize <= at) {
                writeln!(f, "    line {line}")?;
            }
            writeln!(f, "    {at:4}  {}", Instruction { module: self.module, code, at })?;
        }
        for (first, line) in lines {
            writeln!(f, "    line {line} from @{first}")?;
        }
        for h in &function.handlers {
            let ty = self.module.types.name(h.ty);
            writeln!(f, "    [{}..{}) -> @{}  r{} {ty}", h.first, h.end, h.target, h.register)?;
        }
        for (i, switch) in function.switches.iter().enumerate() {
            write!(f, "    switch #{i}")?;
            for (n, target) in switch.targets.iter().enumerate() {
                write!(f, " {}: @{target},", switch.first.wrapping_add(n as i64))?;
            }
            writeln!(f, " default: @{}", switch.default)?;
        }
        Ok(())
    }
}

impl FunctionListing<'_> {
    fn header(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        let types = &self.module.types;
        write!(f, "func #{} ", self.index)?;
        write_signature(f, types, &function.signature, &function.name)?;
        match function.kind {
            FunctionKind::Free => {}
            FunctionKind::Method => write!(f, "  method")?,
            FunctionKind::Constructor => write!(f, "  constructor")?,
        }
        write!(f, "  registers {}", function.registers)?;
        match self.module.files.get(function.file as usize) {
            Some(file) => writeln!(f, "  {file:?}")?,
            None => writeln!(f, "  file #{} ?", function.file)?,
        }
        for local in &function.locals {
            let ty = types.name(local.ty);
            let (name, register) = (&local.name, local.register);
            writeln!(f, "    local r{register} {ty} {name} [{}..{})", local.first, local.end)?;
        }
        Ok(())
    }
}

impl Display for Instruction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(op) = self.code.op() else {
            return write!(f, "? {:#018x}", self.code.0);
        };
        if op.operands().is_empty() {
            return f.write_str(op.text());
        }
        write!(f, "{:<12} ", op.text())?;
        for (i, &(operand, place)) in op.operands().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            self.operand(f, operand, place)?;
        }
        Ok(())
    }
}

impl Instruction<'_> {
    fn operand(&self, f: &mut Formatter<'_>, operand: Operand, place: Place) -> fmt::Result {
        let (module, types) = (self.module, &self.module.types);
        let value = self.code.field(place);
        let index = value as usize;
        match operand {
            Operand::DW
            | Operand::DR
            | Operand::DS
            | Operand::W
            | Operand::R
            | Operand::S
            | Operand::Call => write!(f, "r{value}"),
            Operand::K => write!(f, "{}", self.code.signed(place)),
            Operand::U => write!(f, "{value}"),
            Operand::J => match self.code.jump_target(self.at) {
                Some(target) => write!(f, "@{target}"),
                None => write!(f, "@? {}", self.code.signed(place)),
            },
            Operand::Str => match module.strings.get(index) {
                Some(text) => write!(f, "#{value} {text:?}"),
                None => write!(f, "#{value} ?"),
            },
            Operand::Word => match module.words.get(index) {
                Some(&word) => write!(f, "#{value} {}", word_text(word)),
                None => write!(f, "#{value} ?"),
            },
            Operand::Ty => write!(f, "#{value} {}", types.name(TypeId(value))),
            Operand::Cls => f.write_str(&named(value, types.classes.get(index).map(|c| &*c.name))),
            Operand::Fun => f.write_str(&named(value, function_name(module, value))),
            Operand::Nat => f.write_str(&named(value, module.natives.get(index).map(|n| &*n.name))),
            Operand::Sel => {
                f.write_str(&named(value, types.selectors.get(index).map(|s| &*s.name)))
            }
            Operand::Slot => write!(f, ":{value}"),
            Operand::Fld => write!(f, ".{value}"),
            Operand::Sw => write!(f, "switch #{value}"),
            Operand::Exc => f.write_str(&named(value, types.classes.get(index).map(|c| &*c.name))),
        }
    }
}

fn function_name(module: &Module, index: u32) -> Option<&str> {
    module.functions.get(index as usize).map(|f| &*f.name)
}

/// `#3 area`, or `#3 ?` for an index without an entry.
fn named(index: u32, name: Option<&str>) -> String {
    format!("#{index} {}", name.unwrap_or("?"))
}

/// A constant as what it most likely is: small integers as such, others as a `double` as well.
fn word_text(word: u64) -> String {
    let signed = word as i64;
    if signed.unsigned_abs() < 1 << 48 {
        return signed.to_string();
    }
    format!("{signed} ({:?})", f64::from_bits(word))
}

fn write_signature(
    f: &mut Formatter<'_>,
    types: &TypeTable,
    signature: &Signature,
    name: &str,
) -> fmt::Result {
    write!(f, "{} {name}(", types.name(signature.result))?;
    for (i, param) in signature.params.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        if param.out {
            f.write_str("out ")?;
        }
        f.write_str(&types.name(param.ty))?;
    }
    f.write_char(')')
}

#[cfg(test)]
mod tests {
    use super::super::module::{Handler, Switch};
    use super::super::op::Op;
    use super::super::types::{FunctionId, known};
    use super::*;

    fn module(code: Vec<Code>) -> Module {
        Module {
            name: "m".into(),
            types: TypeTable::new(),
            functions: vec![Function {
                name: "main".into(),
                signature: Signature { params: Vec::new(), result: known::INT },
                registers: 4,
                code,
                handlers: vec![Handler {
                    first: 0,
                    end: 1,
                    target: 2,
                    register: 3,
                    ty: known::EXCEPTION,
                }],
                switches: vec![Switch { first: -1, targets: vec![2, 3], default: 4 }],
                file: 0,
                lines: vec![(0, 7), (2, 9)],
                locals: Vec::new(),
                kind: FunctionKind::Free,
            }],
            strings: vec!["a\n".into()],
            words: vec![7],
            natives: Vec::new(),
            main: Some(FunctionId(0)),
            files: vec!["m.n".into()],
        }
    }

    #[test]
    fn a_function_shows_lines_operands_and_tables() {
        let module = module(vec![
            Code::ax(Op::Text, 1, 0),
            Code::abc(Op::AddIntK, 1, 2, -3i16 as u16),
            Code::abc(Op::LoopLtInt, 1, 2, -2i16 as u16),
            Code::ax(Op::Switch, 1, 0),
            Code::ax(Op::Call, 2, 0),
        ]);
        let text = FunctionListing { module: &module, index: 0 }.to_string();
        assert_eq!(
            text,
            "func #0 int main()  registers 4  \"m.n\"
    line 7
       0  text         r1, #0 \"a\\n\"
       1  add.int.k    r1, r2, -3
    line 9
       2  loop.lt.int  r1, r2, @1
       3  switch       r1, switch #0
       4  call         r2, #0 main
    [0..1) -> @2  r3 Exception
    switch #0 -1: @2, 0: @3, default: @4
"
        );
    }

    #[test]
    fn what_no_verifier_has_seen_is_shown_too() {
        let mut code = vec![Code(u64::MAX)];
        code.extend(Op::ALL.iter().map(|&op| Code(op as u64 | u64::MAX << 16)));
        let mut module = module(code);
        module.main = Some(FunctionId(99));
        let text = Listing(&module).to_string();
        for op in Op::ALL {
            assert!(text.contains(op.text()), "{op:?}");
        }
        assert!(text.contains("main #99 ?"));
    }
}
