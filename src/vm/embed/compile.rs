//! From source text to a program.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::diagnostics::Diagnostics;
use super::error::Error;
use super::program::Program;
use crate::lang::compile as compile_parsed;
use crate::lang::loader::{Folders, Found, Loader, Memory};
use crate::lang::on_deep_stack;
use crate::lang::units::{Root, load};
use crate::vm::library::decl::is_behind_script;

/// Compiles a program of one text, whose unit is called `main.n` in messages.
///
/// It may call any native function: whether the host has it is seen when the program is loaded. See
/// [`Compiler`] for programs of several files.
///
/// # Errors
///
/// All that is wrong with the program.
pub fn compile(source: &str) -> Result<Program, Diagnostics> {
    Compiler::new().compile("main.n", source)
}

/// Compiles programs: knows where imported units are found, and which native functions there are.
///
/// A unit that is imported as `lib.geo` is looked for among those [added](Compiler::unit), then by the
/// [loader](Compiler::loader), then as the file `lib/geo.n` below the
/// [folder to search](Compiler::search); without any of these there are only the packages of the
/// library.
///
/// ```
/// use pirn::vm::{Compiler, Vm};
///
/// let program = Compiler::new()
///     .unit("lib.geo", "int area(int a, int b) { return a * b; }")
///     .compile("main.n", "import lib.geo; int main() { return lib.geo.area(6, 7); }")?;
/// assert_eq!(Vm::new(&program)?.run()?, 42);
/// # Ok::<(), pirn::vm::Error>(())
/// ```
#[derive(Default)]
pub struct Compiler {
    units: Memory,
    loader: Option<Box<LoaderFn>>,
    folder: Option<PathBuf>,
    natives: Option<HashSet<String>>,
}

type LoaderFn = dyn Fn(&str) -> Option<String> + Send + Sync;

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler")
            .field("units", &self.units)
            .field("folder", &self.folder)
            .field("natives", &self.natives)
            .finish_non_exhaustive()
    }
}

impl Compiler {
    /// A compiler that finds no imports but the library.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// Adds a unit that programs may import, by its package: `lib.geo`.
    pub fn unit(mut self, package: &str, source: impl Into<Vec<u8>>) -> Compiler {
        self.units = self.units.with(package, source);
        self
    }

    /// Finds units by a function from a path (`lib/geo.n`) to a source text. An import of a whole
    /// folder (`import lib.*;`) does not ask it.
    pub fn loader(
        mut self,
        load: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Compiler {
        self.loader = Some(Box::new(load));
        self
    }

    /// Finds units as files below a folder.
    pub fn search(mut self, folder: impl Into<PathBuf>) -> Compiler {
        self.folder = Some(folder.into());
        self
    }

    /// Says which native functions the host has, by qualified name: a `native` declaration of another
    /// one is an error then.
    pub fn natives(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Compiler {
        self.natives = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Compiles a program whose root unit is a text. The name is the file's in messages, and the
    /// unit's without its suffix.
    ///
    /// # Errors
    ///
    /// All that is wrong with the program and the units it imports.
    pub fn compile(&self, name: &str, source: impl AsRef<[u8]>) -> Result<Program, Diagnostics> {
        let root = Root::new(name, source.as_ref());
        on_deep_stack(|| self.compile_here(root, self.folder.as_deref()))
    }

    fn compile_here(&self, root: Root, folder: Option<&Path>) -> Result<Program, Diagnostics> {
        let places = Places { compiler: self, folders: folder.map(Folders::new) };
        let parsed = load(root, &places);
        let is_native = |name: &str| {
            self.natives.as_ref().is_none_or(|names| names.contains(name)) || is_behind_script(name)
        };
        let (module, diagnostics) = compile_parsed(&parsed, &is_native);
        let diagnostics = Diagnostics::new(diagnostics, parsed.sources);
        let Some(module) = module else { return Err(diagnostics) };
        Program::new(module, diagnostics)
            .map_err(|error| Diagnostics::message(format!("the compiler made a mistake: {error}")))
    }

    /// Compiles a program whose root unit is a file; what it imports is looked for from the file's
    /// folder, unless there is another one [to search](Compiler::search).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read; [`Error::Compile`].
    pub fn compile_file(&self, path: impl AsRef<Path>) -> Result<Program, Error> {
        let path = path.as_ref();
        let source = std::fs::read(path).map_err(|error| {
            let message = format!("cannot read `{}`: {error}", path.display());
            Error::Io(std::io::Error::new(error.kind(), message))
        })?;
        let root = Root::new(&path.display().to_string(), source);
        let beside = path.parent().unwrap_or(Path::new(""));
        let folder = self.folder.as_deref().unwrap_or(beside);
        Ok(on_deep_stack(|| self.compile_here(root, Some(folder)))?)
    }
}

/// Where a compilation finds units: the first place that has one.
struct Places<'a> {
    compiler: &'a Compiler,
    folders: Option<Folders>,
}

impl Loader for Places<'_> {
    fn find(&self, package: &[&str]) -> Vec<Found> {
        let found = self.compiler.units.find(package);
        if !found.is_empty() {
            return found;
        }
        let path = format!("{}.n", package.join("/"));
        if let Some(text) = self.compiler.loader.as_ref().and_then(|load| load(&path)) {
            return vec![Found { path, bytes: Ok(text.into_bytes()) }];
        }
        self.folders.as_ref().map_or(Vec::new(), |folders| folders.find(package))
    }

    fn below(&self, prefix: &[&str]) -> BTreeSet<String> {
        let mut packages = self.compiler.units.below(prefix);
        if let Some(folders) = &self.folders {
            packages.extend(folders.below(prefix));
        }
        packages
    }

    fn near(&self, package: &[&str]) -> Option<String> {
        let units = self.compiler.units.near(package);
        units.or_else(|| self.folders.as_ref().and_then(|folders| folders.near(package)))
    }
}
